import { Group, Stack } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { REQUESTS } from '../../app/requests';
import { Empty } from '../../components/empty';
import { Loaded } from '../../components/failure';
import { Choice, SearchField } from '../../components/filters';
import { Page } from '../../components/page';
import { Pager } from '../../components/pager';
import { t } from '../../text';
import { NextStep } from '../access/next-step';
import { AddUser } from './add-user';
import { UserList } from './user-list';

const route = getRouteApi('/p/$projectId/users');
const LIMIT = 50;

export function Users() {
  const { projectId } = useProject();
  const filters = route.useSearch();
  const navigate = route.useNavigate();
  const { page = 1, search, filter } = filters;
  const users = useQuery({
    queryKey: [projectId, 'users', filters],
    queryFn: ({ signal }) =>
      read(api.GET('/users', { params: { query: { search, filter, page, limit: LIMIT } }, signal })),
    placeholderData: keepPreviousData,
  });
  const change = (part: Partial<typeof filters>) =>
    void navigate({ search: { ...filters, page: undefined, ...part }, replace: true });
  const names = { active: t.users.active, inactive: t.users.inactive };
  return (
    <Page
      title={t.users.title}
      actions={
        <AddUser
          onAdded={(userId, exists) =>
            exists &&
            void navigate({
              to: '/p/$projectId/users/$userId',
              params: { projectId, userId },
              search: {},
              ignoreBlocker: true,
            })
          }
        />
      }
    >
      <Group align="flex-end">
        <SearchField label={t.users.search} value={search} onChange={(value) => change({ search: value })} />
        <Choice
          label={t.users.filter}
          value={filter}
          options={['active', 'inactive']}
          name={(each) => names[each]}
          onChange={(value) => change({ filter: value })}
        />
      </Group>
      <Loaded query={users} rows={10}>
        {(found) => (
          <Stack>
            <UserList
              users={found.users}
              projectId={projectId}
              empty={
                search || filter ? (
                  <Empty title={t.users.emptyTitle}>{t.users.emptyFiltered}</Empty>
                ) : (
                  <NextStep
                    title={t.users.emptyTitle}
                    text={t.users.emptyText}
                    label={t.nextStep.terminal}
                    request={REQUESTS.user}
                  />
                )
              }
            />
            <Pager
              page={page}
              limit={LIMIT}
              total={found.total}
              totalIsCapped={found.totalIsCapped}
              onPage={(next) => change({ page: next })}
            />
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}
