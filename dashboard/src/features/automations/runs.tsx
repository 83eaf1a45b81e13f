import { Box, Group } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { REQUESTS } from '../../app/requests';
import { runReason } from '../../app/reasons';
import { RUN_STATUSES } from '../../app/values';
import { Empty } from '../../components/empty';
import { Choice, SearchField } from '../../components/filters';
import { Listing } from '../../components/listing';
import { ButtonLink, ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { More } from '../../components/more';
import { Page } from '../../components/page';
import { Reason } from '../../components/reason';
import { Status } from '../../components/status';
import { t } from '../../text';
import { NextStep } from '../access/next-step';
import { currentStep } from './step-place';

const route = getRouteApi('/p/$projectId/automations/$automationId/runs');
const LIMIT = 50;
const POLL_MS = 5_000;

export function Runs() {
  const { projectId } = useProject();
  const { automationId } = route.useParams();
  const filters = route.useSearch();
  const navigate = route.useNavigate();
  const { status, user } = filters;
  const runs = useInfiniteQuery({
    queryKey: [projectId, 'runs', automationId, filters],
    queryFn: ({ signal, pageParam }) =>
      read(
        api.GET('/automations/{id}/runs', {
          params: { path: { id: automationId }, query: { status, userId: user, limit: LIMIT, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextCursor ?? undefined,
    refetchInterval: POLL_MS,
  });
  const filter = (change: Partial<typeof filters>) =>
    void navigate({ search: { ...filters, ...change }, replace: true });
  return (
    <Page
      title={t.runs.title}
      actions={
        <ButtonLink variant="default" to="/p/$projectId/automations/$automationId" params={{ projectId, automationId }}>
          {t.messages.automation}
        </ButtonLink>
      }
    >
      <Group align="flex-end">
        <Choice
          label={t.runs.status}
          value={status}
          options={RUN_STATUSES}
          name={(each) => t.statuses[each] ?? each}
          onChange={(value) => filter({ status: value })}
        />
        <SearchField label={t.runs.userId} value={user} onChange={(value) => filter({ user: value })} />
      </Group>
      <More query={runs} rows={(each) => each.runs}>
        {(rows) => (
          <Listing
            label={t.runs.title}
            rows={rows}
            id={(run) => run.id}
            empty={
              status || user ? (
                <Empty title={t.runs.emptyTitle}>{t.runs.emptyFiltered}</Empty>
              ) : (
                <NextStep
                  title={t.runs.emptyTitle}
                  text={t.runs.emptyText}
                  label={t.nextStep.terminal}
                  request={REQUESTS.event}
                />
              )
            }
            columns={[
              {
                title: t.runs.user,
                cell: (run) => (
                  <ScreenLink
                    to="/p/$projectId/automations/$automationId/runs/$runId"
                    params={{ projectId, automationId, runId: run.id }}
                  >
                    {run.userId ?? run.anonymousId ?? run.id}
                  </ScreenLink>
                ),
              },
              {
                title: t.runs.status,
                cell: (run) => (
                  <Box miw="max-content">
                    <Status of={run.status} />
                  </Box>
                ),
              },
              { title: t.runs.currentStep, cell: (run) => currentStep(run.step) },
              { title: t.runs.resumesAt, cell: (run) => <Moment at={run.dueAt} /> },
              { title: t.runs.reason, cell: (run) => <Reason reason={run.reason} words={runReason} maw={260} /> },
              { title: t.runs.version, cell: (run) => run.version, end: true },
              { title: t.runs.started, cell: (run) => <Moment at={run.startedAt} /> },
              { title: t.runs.ended, cell: (run) => <Moment at={run.endedAt} /> },
            ]}
          />
        )}
      </More>
    </Page>
  );
}
