import { Group, Stack, Text } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { Empty } from '../../components/empty';
import { Loaded } from '../../components/failure';
import { SearchField } from '../../components/filters';
import { Listing } from '../../components/listing';
import { Moment } from '../../components/moment';
import { Page } from '../../components/page';
import { Pager } from '../../components/pager';
import { t } from '../../text';

const route = getRouteApi('/p/$projectId/audit-log');
const LIMIT = 50;

export function AuditLog() {
  const { projectId } = useProject();
  const filters = route.useSearch();
  const navigate = route.useNavigate();
  const { page = 1, action } = filters;
  const entries = useQuery({
    queryKey: [projectId, 'audit-log', filters],
    queryFn: ({ signal }) => read(api.GET('/audit-log', { params: { query: { action, page, limit: LIMIT } }, signal })),
    placeholderData: keepPreviousData,
  });
  const filter = (change: Partial<typeof filters>) =>
    void navigate({ search: { ...filters, page: undefined, ...change }, replace: true });
  return (
    <Page title={t.audit.title}>
      <Text>{t.audit.text}</Text>
      <Group>
        <SearchField
          label={`${t.audit.action} (${t.audit.actionHint})`}
          value={action}
          onChange={(value) => filter({ action: value })}
        />
      </Group>
      <Loaded query={entries} rows={8}>
        {(found) => (
          <Stack>
            <Listing
              label={t.audit.title}
              rows={found.entries}
              id={(entry) => entry.id}
              empty={<Empty title={t.audit.emptyTitle}>{action ? t.audit.emptyFiltered : t.audit.emptyText}</Empty>}
              columns={[
                { title: t.audit.at, cell: (entry) => <Moment at={entry.createdAt} /> },
                { title: t.audit.actor, cell: (entry) => entry.actor.name },
                { title: t.audit.action, cell: (entry) => entry.action },
                { title: t.audit.resource, cell: (entry) => entry.resourceName ?? entry.resourceId ?? '–' },
                {
                  title: t.audit.details,
                  cell: (entry) => (
                    <Text size="sm" ff="monospace" lineClamp={2} maw={360}>
                      {JSON.stringify(entry.details)}
                    </Text>
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
    </Page>
  );
}
