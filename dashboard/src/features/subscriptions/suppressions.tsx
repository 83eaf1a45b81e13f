import { Button, Group, Modal, NativeSelect, Stack, Text, TextInput } from '@mantine/core';
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { REQUESTS } from '../../app/requests';
import { CHANNELS, type Channel, SUPPRESSION_REASONS } from '../../app/values';
import { namesOf } from '../../app/field-labels';
import { ConfirmButton } from '../../components/confirm-button';
import { Empty } from '../../components/empty';
import { Failure, Loaded } from '../../components/failure';
import { Choice, SearchField } from '../../components/filters';
import { Listing } from '../../components/listing';
import { ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { Page } from '../../components/page';
import { Pager } from '../../components/pager';
import { t } from '../../text';
import { NextStep } from '../access/next-step';

const FIELD_NAMES = namesOf({
  channel: t.suppressions.channel,
  address: t.suppressions.address,
  note: t.suppressions.note,
});

const route = getRouteApi('/p/$projectId/suppressions');
const LIMIT = 50;

function reasonName(reason: string | null | undefined): string {
  return reason ? (t.statuses[reason] ?? reason) : '–';
}

export function Suppressions() {
  const { projectId } = useProject();
  const filters = route.useSearch();
  const navigate = route.useNavigate();
  const client = useQueryClient();
  const [adding, setAdding] = useState(false);
  const { page = 1, channel, reason, address } = filters;
  const list = useQuery({
    queryKey: [projectId, 'suppressions', filters],
    queryFn: ({ signal }) =>
      read(api.GET('/suppressions', { params: { query: { channel, reason, address, page, limit: LIMIT } }, signal })),
    placeholderData: keepPreviousData,
  });
  const filter = (change: Partial<typeof filters>) =>
    void navigate({ search: { ...filters, page: undefined, ...change }, replace: true });
  const refresh = () => void client.invalidateQueries({ queryKey: [projectId, 'suppressions'] });
  return (
    <Page title={t.suppressions.title} actions={<Button onClick={() => setAdding(true)}>{t.suppressions.add}</Button>}>
      <Text>{t.suppressions.text}</Text>
      <Group align="flex-end">
        <SearchField
          label={`${t.suppressions.address} (${t.suppressions.addressHint.toLowerCase()})`}
          value={address}
          onChange={(value) => filter({ address: value })}
        />
        <Choice
          label={t.suppressions.channel}
          value={channel}
          options={CHANNELS}
          name={t.channelName}
          onChange={(value) => filter({ channel: value })}
        />
        <Choice
          label={t.suppressions.reason}
          value={reason}
          options={SUPPRESSION_REASONS}
          name={(each) => t.statuses[each] ?? each}
          onChange={(value) => filter({ reason: value })}
        />
      </Group>
      <Loaded query={list}>
        {(found) => (
          <Stack>
            <Listing
              label={t.suppressions.title}
              rows={found.suppressions}
              id={(row) => row.id}
              empty={
                channel || reason || address ? (
                  <Empty title={t.suppressions.emptyTitle}>{t.suppressions.emptyFiltered}</Empty>
                ) : (
                  <NextStep
                    title={t.suppressions.emptyTitle}
                    text={t.suppressions.emptyText}
                    label={t.nextStep.server}
                    request={REQUESTS.suppression}
                  />
                )
              }
              columns={[
                { title: t.suppressions.address, cell: (row) => row.address ?? row.userId ?? '–' },
                { title: t.suppressions.channel, cell: (row) => t.channelName(row.channel) },
                { title: t.suppressions.reason, cell: (row) => reasonName(row.reason) },
                {
                  title: t.suppressions.note,
                  cell: (row) =>
                    row.messageId ? (
                      <ScreenLink
                        to="/p/$projectId/messages/$messageId"
                        params={{ projectId, messageId: row.messageId }}
                      >
                        {row.note || t.messages.view}
                      </ScreenLink>
                    ) : (
                      row.note || '–'
                    ),
                },
                { title: t.suppressions.since, cell: (row) => <Moment at={row.createdAt} /> },
                {
                  title: t.suppressions.remove,
                  cell: (row) => (
                    <ConfirmButton
                      label={t.suppressions.remove}
                      title={t.suppressions.removeTitle}
                      action={() => read(api.DELETE('/suppressions', { body: { id: row.id } }))}
                      onDone={refresh}
                    >
                      {t.suppressions.removeText(row.address ?? row.userId ?? '', reasonName(row.reason))}
                    </ConfirmButton>
                  ),
                },
              ]}
            />
            <Pager
              page={page}
              limit={LIMIT}
              total={found.total}
              totalIsCapped={found.totalIsCapped}
              onPage={(next) => filter({ page: next })}
            />
          </Stack>
        )}
      </Loaded>
      <Modal
        opened={adding}
        onClose={() => setAdding(false)}
        title={t.suppressions.add}
        closeButtonProps={{ 'aria-label': t.close }}
      >
        <Add
          onAdded={() => {
            setAdding(false);
            notify(t.saved);
            refresh();
          }}
        />
      </Modal>
    </Page>
  );
}

function Add({ onAdded }: { onAdded: () => void }) {
  const [channel, setChannel] = useState<Channel>('EMAIL');
  const [address, setAddress] = useState('');
  const [note, setNote] = useState('');
  const adding = useMutation({
    mutationFn: () => read(api.POST('/suppressions', { body: { channel, address, note } })),
    onSuccess: onAdded,
  });
  return (
    <Stack>
      <NativeSelect
        label={t.suppressions.channel}
        value={channel}
        onChange={(event) => setChannel(CHANNELS.find((each) => each === event.currentTarget.value) ?? 'EMAIL')}
        data={CHANNELS.filter((each) => each === 'EMAIL' || each === 'SMS').map((value) => ({
          value,
          label: t.channelName(value),
        }))}
      />
      <TextInput
        label={t.suppressions.address}
        required
        value={address}
        onChange={(event) => setAddress(event.currentTarget.value)}
        error={problemOf(adding.error, 'address')}
        data-autofocus
      />
      <TextInput
        label={t.suppressions.note}
        value={note}
        onChange={(event) => setNote(event.currentTarget.value)}
        error={problemOf(adding.error, 'note')}
      />
      <Failure error={adding.error} nameField={FIELD_NAMES} />
      <Button loading={adding.isPending} onClick={() => adding.mutate()}>
        {t.add}
      </Button>
    </Stack>
  );
}
