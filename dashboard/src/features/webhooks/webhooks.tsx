import { Button, Checkbox, Group, Stack, Switch, Text, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { REQUESTS } from '../../app/requests';
import { WEBHOOK_EVENTS } from '../../app/values';
import { namesOf } from '../../app/field-labels';
import { useDraft } from '../../components/draft';
import { EditorModal, Unsaved } from '../../components/editor-modal';
import { Failure, Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { Page } from '../../components/page';
import { SecretOnce } from '../../components/snippet';
import { Status } from '../../components/status';
import { t } from '../../text';
import { NextStep } from '../access/next-step';
import { EventType } from './event-type';

const FIELD_NAMES = namesOf({
  url: t.webhooks.url,
  description: t.webhooks.description,
  events: t.webhooks.events,
  enabled: t.webhooks.enabled,
});

type Endpoint = Schemas['WebhookEndpoint'];

export function Webhooks() {
  const { projectId } = useProject();
  const client = useQueryClient();
  const [creating, setCreating] = useState(false);
  const [secret, setSecret] = useState<string | null>(null);
  const key = [projectId, 'webhook-endpoints'];
  const endpoints = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => read(api.GET('/webhook-endpoints', { signal })),
  });
  return (
    <Page title={t.webhooks.title} actions={<Button onClick={() => setCreating(true)}>{t.webhooks.create}</Button>}>
      <Text>{t.webhooks.text}</Text>
      <Loaded query={endpoints}>
        {(found) => (
          <Listing
            label={t.webhooks.title}
            rows={found.endpoints}
            id={(endpoint) => endpoint.id}
            empty={
              <NextStep
                title={t.webhooks.emptyTitle}
                text={t.webhooks.emptyText}
                label={t.webhooks.trigger}
                request={REQUESTS.event}
              />
            }
            columns={[
              {
                title: t.webhooks.url,
                cell: (endpoint) => (
                  <ScreenLink to="/p/$projectId/webhooks/$endpointId" params={{ projectId, endpointId: endpoint.id }}>
                    {endpoint.url}
                  </ScreenLink>
                ),
              },
              { title: t.webhooks.description, cell: (endpoint) => endpoint.description || '–' },
              {
                title: t.webhooks.events,
                cell: (endpoint) =>
                  endpoint.events.includes('*')
                    ? t.webhooks.everything
                    : endpoint.events.map((type) => (
                        <div key={type}>
                          <EventType type={type} />
                        </div>
                      )),
              },
              { title: t.webhooks.state, cell: (endpoint) => <EndpointState endpoint={endpoint} /> },
            ]}
          />
        )}
      </Loaded>
      <EditorModal opened={creating} onClose={() => setCreating(false)} title={t.webhooks.create}>
        <EndpointForm
          endpoint={null}
          onSaved={(saved) => {
            setCreating(false);
            if ('secret' in saved && saved.secret) setSecret(saved.secret);
            else notify(t.webhooks.secretLost, true);
            void client.invalidateQueries({ queryKey: key });
          }}
        />
      </EditorModal>
      <SecretOnce title={t.webhooks.secret} secret={secret} onClose={() => setSecret(null)} />
    </Page>
  );
}

export function EndpointState({ endpoint }: { endpoint: Endpoint }) {
  return (
    <>
      <Status
        of={endpoint.enabled ? 'on' : 'off'}
        label={
          endpoint.enabled
            ? t.webhooks.enabled
            : (t.webhooks.disabled[endpoint.disabledReason ?? ''] ?? t.webhooks.disabledManually)
        }
      />
      {endpoint.failingSince && (
        <Text size="xs">
          {t.webhooks.failing} <Moment at={endpoint.failingSince} />
        </Text>
      )}
    </>
  );
}

interface Draft {
  url: string;
  description: string;
  events: string[];
  enabled: boolean;
}

interface FormProps {
  endpoint: Endpoint | null;
  onSaved: (saved: Endpoint | Schemas['WebhookEndpointWithSecret']) => void;
}

export function EndpointForm({ endpoint, onSaved }: FormProps) {
  const draft = useDraft<Draft>({
    url: endpoint?.url ?? '',
    description: endpoint?.description ?? '',
    events: endpoint?.events ?? ['*'],
    enabled: endpoint?.enabled ?? true,
  });
  const { url, description, events, enabled } = draft.value;
  const saving = useMutation({
    async mutationFn(): Promise<Endpoint | Schemas['WebhookEndpointWithSecret']> {
      const body = { url, description, enabled, events: WEBHOOK_EVENTS.filter((each) => events.includes(each)) };
      return endpoint
        ? read(api.PUT('/webhook-endpoints/{id}', { params: { path: { id: endpoint.id } }, body }))
        : read(api.POST('/webhook-endpoints', { body }));
    },
    onSuccess: onSaved,
  });
  return (
    <Stack>
      <Unsaved when={draft.isDirty && !saving.isSuccess} />
      <TextInput
        label={t.webhooks.url}
        required
        value={url}
        onChange={(event) => draft.set({ url: event.currentTarget.value })}
        error={problemOf(saving.error, 'url')}
        data-autofocus
      />
      <TextInput
        label={t.webhooks.description}
        value={description}
        onChange={(event) => draft.set({ description: event.currentTarget.value })}
        error={problemOf(saving.error, 'description')}
      />
      <Checkbox.Group
        label={t.webhooks.events}
        value={events}
        onChange={(chosen) => draft.set({ events: chosen })}
        error={problemOf(saving.error, 'events')}
      >
        {WEBHOOK_EVENTS.map((each) => (
          <Checkbox
            key={each}
            mt={4}
            size="xs"
            value={each}
            label={each === '*' ? t.webhooks.everything : <EventType type={each} />}
          />
        ))}
      </Checkbox.Group>
      <Switch
        label={t.webhooks.enabled}
        checked={enabled}
        onChange={(event) => draft.set({ enabled: event.currentTarget.checked })}
      />
      <Failure error={saving.error} nameField={FIELD_NAMES} />
      <Group>
        <Button loading={saving.isPending} onClick={() => saving.mutate()}>
          {t.save}
        </Button>
      </Group>
    </Stack>
  );
}
