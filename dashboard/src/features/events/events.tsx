import { Group, Modal, Stack, Switch, Text } from '@mantine/core';
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { REQUESTS } from '../../app/requests';
import { ConfirmButton } from '../../components/confirm-button';
import { Empty } from '../../components/empty';
import { Failure, Loaded } from '../../components/failure';
import { SearchField } from '../../components/filters';
import { Json } from '../../components/json';
import { Listing } from '../../components/listing';
import { Moment } from '../../components/moment';
import { Page } from '../../components/page';
import { Pager } from '../../components/pager';
import { t } from '../../text';
import { NextStep } from '../access/next-step';
import { EventList } from './event-list';
import { SendEvent } from './send-event';

const route = getRouteApi('/p/$projectId/events');
const POLL_MS = 2_000;
const LIMIT = 50;

export function Events() {
  const { projectId } = useProject();
  const filters = route.useSearch();
  const navigate = route.useNavigate();
  const [live, setLive] = useState(true);
  const [shown, setShown] = useState<Schemas['Event'] | null>(null);
  const client = useQueryClient();
  const { page = 1, event, user, idType, search } = filters;
  const events = useQuery({
    queryKey: [projectId, 'events', filters],
    queryFn: ({ signal }) =>
      read(api.GET('/events', { params: { query: { event, user, idType, search, page, limit: LIMIT } }, signal })),
    refetchInterval: live && page === 1 ? POLL_MS : false,
    placeholderData: keepPreviousData,
  });
  const filter = (change: Partial<typeof filters>) =>
    void navigate({ search: { ...filters, page: undefined, ...change }, replace: true });
  const filtered = Boolean(event ?? user ?? search);
  return (
    <Page
      title={t.events.title}
      actions={
        <>
          <Switch
            label={t.events.live}
            title={t.events.liveHint}
            checked={live}
            onChange={(change) => setLive(change.currentTarget.checked)}
          />
          <SendEvent />
        </>
      }
    >
      <Group align="flex-end">
        <SearchField label={t.events.filterName} value={event} onChange={(value) => filter({ event: value })} />
        <SearchField label={t.events.search} value={search} onChange={(value) => filter({ search: value })} />
        <SearchField
          label={t.events.filterUser}
          value={user}
          onChange={(value) => filter({ user: value, idType: undefined })}
        />
      </Group>
      <Loaded query={events} rows={10}>
        {(found) => (
          <Stack>
            <EventList
              events={found.events}
              projectId={projectId}
              onShow={setShown}
              empty={
                filtered ? (
                  <Empty title={t.events.emptyTitle}>{t.events.emptyFiltered}</Empty>
                ) : (
                  <NextStep
                    title={t.events.emptyTitle}
                    text={t.events.emptyText}
                    label={t.nextStep.terminal}
                    request={REQUESTS.event}
                  />
                )
              }
            />
            <Pager
              page={page}
              limit={LIMIT}
              total={found.pagination.total}
              totalIsCapped={found.pagination.totalIsCapped}
              onPage={(next) => filter({ page: next })}
            />
          </Stack>
        )}
      </Loaded>
      <Modal
        opened={shown !== null}
        onClose={() => setShown(null)}
        title={t.events.shown}
        size="lg"
        closeButtonProps={{ 'aria-label': t.close }}
      >
        {shown && (
          <Stack>
            <Listing
              label={t.events.shown}
              rows={[shown]}
              id={(row) => row.id}
              columns={[
                { title: t.events.name, cell: (row) => row.eventName },
                { title: t.events.user, cell: (row) => row.userId ?? row.anonymousId },
                { title: t.events.at, cell: (row) => <Moment at={row.timestamp} /> },
                { title: t.events.received, cell: (row) => <Moment at={row.receivedAt} /> },
              ]}
            />
            <Text size="sm" c="dimmed">
              {t.events.id}: {shown.id}
            </Text>
            <Json value={shown.properties} />
            <Group>
              <ConfirmButton
                label={t.events.remove}
                title={t.events.remove}
                action={() => read(api.DELETE('/events/{id}', { params: { path: { id: shown.id } } }))}
                onDone={() => {
                  setShown(null);
                  notify(t.events.removed);
                  void client.invalidateQueries({ queryKey: [projectId, 'events'] });
                }}
              >
                {t.events.removeText(shown.eventName)}
              </ConfirmButton>
            </Group>
          </Stack>
        )}
      </Modal>
      {events.isPlaceholderData && <Failure error={events.error} />}
    </Page>
  );
}
