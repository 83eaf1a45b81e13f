import { Button, Group, Modal, Stack, Text } from '@mantine/core';
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { DELIVERY_STATUSES } from '../../app/values';
import { ConfirmButton } from '../../components/confirm-button';
import { EditorModal } from '../../components/editor-modal';
import { Failure, Loaded } from '../../components/failure';
import { Choice } from '../../components/filters';
import { Json } from '../../components/json';
import { Listing } from '../../components/listing';
import { Moment } from '../../components/moment';
import { More } from '../../components/more';
import { Page, Section } from '../../components/page';
import { SecretOnce } from '../../components/snippet';
import { Status } from '../../components/status';
import { t } from '../../text';
import { EventType } from './event-type';
import { EndpointForm, EndpointState } from './webhooks';

const route = getRouteApi('/p/$projectId/webhooks/$endpointId');
type Delivery = Schemas['WebhookDelivery'];
const POLL_MS = 5_000;

export function EndpointScreen() {
  const { projectId } = useProject();
  const { endpointId } = route.useParams();
  const endpoint = useQuery({
    queryKey: [projectId, 'webhook-endpoint', endpointId],
    queryFn: ({ signal }) => read(api.GET('/webhook-endpoints/{id}', { params: { path: { id: endpointId } }, signal })),
  });
  return (
    <Page title={endpoint.data?.url ?? t.webhooks.title}>
      <Loaded query={endpoint}>{(found) => <Endpoint key={found.id} endpoint={found} />}</Loaded>
    </Page>
  );
}

function Endpoint({ endpoint }: { endpoint: Schemas['WebhookEndpoint'] }) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [editing, setEditing] = useState(false);
  const [secret, setSecret] = useState<string | null>(null);
  const params = { path: { id: endpoint.id } };
  const refresh = () => {
    void client.invalidateQueries({ queryKey: [projectId, 'webhook-endpoint', endpoint.id] });
    void client.invalidateQueries({ queryKey: [projectId, 'webhook-deliveries', endpoint.id] });
    void client.invalidateQueries({ queryKey: [projectId, 'webhook-endpoints'] });
  };
  const testing = useMutation({
    mutationFn: () => read(api.POST('/webhook-endpoints/{id}/test', { params })),
    onSuccess() {
      notify(t.webhooks.sentTest);
      refresh();
    },
  });
  const rotate = async () => setSecret((await read(api.POST('/webhook-endpoints/{id}/rotate', { params }))).secret);
  const leave = (isMounted: boolean) => {
    notify(t.webhooks.removed);
    refresh();
    if (isMounted) void navigate({ to: '/p/$projectId/webhooks', params: { projectId } });
  };
  return (
    <Stack gap="xl">
      <Group>
        <EndpointState endpoint={endpoint} />
        <Button size="xs" variant="default" onClick={() => setEditing(true)}>
          {t.webhooks.edit}
        </Button>
        <Button size="xs" variant="default" loading={testing.isPending} onClick={() => testing.mutate()}>
          {t.webhooks.test}
        </Button>
        <ConfirmButton label={t.webhooks.rotate} title={t.webhooks.rotateTitle} action={rotate}>
          {t.webhooks.rotateText}
        </ConfirmButton>
        <ConfirmButton
          label={t.remove}
          title={t.webhooks.removeTitle}
          action={() => read(api.DELETE('/webhook-endpoints/{id}', { params }))}
          onDone={leave}
        >
          {t.webhooks.remove(endpoint.url)}
        </ConfirmButton>
      </Group>
      <Failure error={testing.error} />
      <DeliveryLog endpointId={endpoint.id} />
      <EditorModal opened={editing} onClose={() => setEditing(false)} title={t.webhooks.edit}>
        <EndpointForm
          endpoint={endpoint}
          onSaved={() => {
            setEditing(false);
            notify(t.saved);
            refresh();
          }}
        />
      </EditorModal>
      <SecretOnce title={t.webhooks.secret} secret={secret} onClose={() => setSecret(null)} />
    </Stack>
  );
}

function DeliveryLog({ endpointId }: { endpointId: string }) {
  const { projectId } = useProject();
  const { status } = route.useSearch();
  const navigate = route.useNavigate();
  const [shown, setShown] = useState<Delivery | null>(null);
  const deliveries = useInfiniteQuery({
    queryKey: [projectId, 'webhook-deliveries', endpointId, status],
    queryFn: ({ signal, pageParam }) =>
      read(
        api.GET('/webhook-endpoints/{id}/deliveries', {
          params: { path: { id: endpointId }, query: { status, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextCursor ?? undefined,
    refetchInterval: POLL_MS,
  });
  return (
    <Section
      title={t.webhooks.log}
      actions={
        <Choice
          label={t.webhooks.status}
          value={status}
          options={DELIVERY_STATUSES}
          name={(each) => t.statuses[each] ?? each}
          onChange={(value) => void navigate({ search: { status: value }, replace: true })}
        />
      }
    >
      <More query={deliveries} rows={(each) => each.deliveries}>
        {(rows) => (
          <Listing
            label={t.webhooks.log}
            rows={rows}
            id={(delivery) => delivery.id}
            empty={<Text size="sm">{status ? t.webhooks.noDeliveriesFiltered : t.webhooks.noDeliveries}</Text>}
            columns={[
              { title: t.webhooks.created, cell: (delivery) => <Moment at={delivery.createdAt} /> },
              { title: t.webhooks.type, cell: (delivery) => <EventType type={delivery.type} /> },
              { title: t.webhooks.status, cell: (delivery) => <Status of={delivery.status} /> },
              { title: t.webhooks.attempts, cell: (delivery) => delivery.attempts.length, end: true },
              { title: t.webhooks.next, cell: (delivery) => <Moment at={delivery.nextAttemptAt} /> },
              {
                title: t.webhooks.view,
                cell: (delivery) => (
                  <Button size="compact-xs" variant="default" onClick={() => setShown(delivery)}>
                    {t.webhooks.view}
                  </Button>
                ),
              },
            ]}
          />
        )}
      </More>
      <Modal
        opened={shown !== null}
        onClose={() => setShown(null)}
        title={t.webhooks.delivery}
        size="lg"
        closeButtonProps={{ 'aria-label': t.close }}
      >
        {shown && <DeliveryDetails endpointId={endpointId} delivery={shown} onResent={() => setShown(null)} />}
      </Modal>
    </Section>
  );
}

interface DeliveryDetailsProps {
  endpointId: string;
  delivery: Delivery;
  onResent: () => void;
}

function DeliveryDetails({ endpointId, delivery, onResent }: DeliveryDetailsProps) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const resending = useMutation({
    mutationFn: () =>
      read(
        api.POST('/webhook-endpoints/{id}/deliveries/{delivery}/resend', {
          params: { path: { id: endpointId, delivery: delivery.id } },
        }),
      ),
    onSuccess() {
      notify(t.webhooks.resent);
      void client.invalidateQueries({ queryKey: [projectId, 'webhook-deliveries', endpointId] });
      onResent();
    },
  });
  return (
    <Stack>
      <Listing
        label={t.webhooks.attempts}
        rows={delivery.attempts}
        id={(attempt) => attempt.at}
        empty={<Text size="sm">{t.webhooks.noAttempts}</Text>}
        columns={[
          { title: t.webhooks.created, cell: (attempt) => <Moment at={attempt.at} /> },
          { title: t.webhooks.status, cell: (attempt) => attempt.status ?? '–' },
          { title: t.webhooks.duration, cell: (attempt) => t.webhooks.ms(attempt.durationMs) },
          { title: t.webhooks.error, cell: (attempt) => attempt.error ?? '–' },
          { title: t.webhooks.response, cell: (attempt) => attempt.response ?? '–' },
        ]}
      />
      <Text fw={500}>{t.webhooks.payload}</Text>
      <Json value={delivery.payload} />
      <Failure error={resending.error} />
      <Group>
        <Button variant="default" loading={resending.isPending} onClick={() => resending.mutate()}>
          {t.webhooks.resend}
        </Button>
      </Group>
    </Stack>
  );
}
