import { Group, Stack } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { REQUESTS } from '../../app/requests';
import { CHANNELS, MESSAGE_STATUSES } from '../../app/values';
import { Empty } from '../../components/empty';
import { Loaded } from '../../components/failure';
import { Choice, SearchField } from '../../components/filters';
import { Page } from '../../components/page';
import { Pager } from '../../components/pager';
import { t } from '../../text';
import { NextStep } from '../access/next-step';
import { MessageList } from './message-list';

const route = getRouteApi('/p/$projectId/messages');
const LIMIT = 50;
const POLL_MS = 5_000;

export function Messages() {
  const { projectId } = useProject();
  const filters = route.useSearch();
  const navigate = route.useNavigate();
  const { page = 1, userId, channel, status } = filters;
  const messages = useQuery({
    queryKey: [projectId, 'messages', filters],
    queryFn: ({ signal }) =>
      read(api.GET('/messages', { params: { query: { userId, channel, status, page, limit: LIMIT } }, signal })),
    placeholderData: keepPreviousData,
    refetchInterval: page === 1 ? POLL_MS : false,
  });
  const filter = (change: Partial<typeof filters>) =>
    void navigate({ search: { ...filters, page: undefined, ...change }, replace: true });
  return (
    <Page title={t.messages.title}>
      <Group align="flex-end">
        <SearchField label={t.messages.userId} value={userId} onChange={(value) => filter({ userId: value })} />
        <Choice
          label={t.messages.channel}
          value={channel}
          options={CHANNELS}
          name={t.channelName}
          onChange={(value) => filter({ channel: value })}
        />
        <Choice
          label={t.messages.status}
          value={status}
          options={MESSAGE_STATUSES}
          name={(each) => t.statuses[each] ?? each}
          onChange={(value) => filter({ status: value })}
        />
      </Group>
      <Loaded query={messages} rows={10}>
        {(found) => (
          <Stack>
            <MessageList
              messages={found.messages}
              projectId={projectId}
              empty={
                userId || channel || status ? (
                  <Empty title={t.messages.emptyTitle}>{t.messages.emptyFiltered}</Empty>
                ) : (
                  <NextStep
                    title={t.messages.emptyTitle}
                    text={t.messages.emptyText}
                    label={t.nextStep.server}
                    request={REQUESTS.message}
                  />
                )
              }
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
    </Page>
  );
}
