import { Alert, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { runReason } from '../../app/reasons';
import { Loaded } from '../../components/failure';
import { Json } from '../../components/json';
import { ButtonLink, ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { Page, Section } from '../../components/page';
import { Reason } from '../../components/reason';
import { Status } from '../../components/status';
import { t } from '../../text';
import { Path } from './path';

const route = getRouteApi('/p/$projectId/automations/$automationId/runs/$runId');
const POLL_MS = 3_000;

/** One user's run through an automation, step by step. */
export function RunScreen() {
  const { projectId } = useProject();
  const { automationId, runId } = route.useParams();
  const run = useQuery({
    queryKey: [projectId, 'run', runId],
    queryFn: ({ signal }) =>
      read(api.GET('/automations/{id}/runs/{run}', { params: { path: { id: automationId, run: runId } }, signal })),
    refetchInterval: (query) => (query.state.data?.endedAt ? false : POLL_MS),
  });
  return (
    <Page
      title={t.runs.run}
      actions={
        <ButtonLink
          variant="default"
          to="/p/$projectId/automations/$automationId/runs"
          params={{ projectId, automationId }}
        >
          {t.runs.title}
        </ButtonLink>
      }
    >
      <Loaded query={run}>
        {(found) => {
          const userId = found.userId ?? found.anonymousId;
          return (
            <Stack gap="xl">
              <Text component="div">
                <Status of={found.status} />{' '}
                {userId && (
                  <ScreenLink to="/p/$projectId/users/$userId" params={{ projectId, userId }} underline="always">
                    {userId}
                  </ScreenLink>
                )}
                {' · '}
                {t.runs.version} {found.version} · {t.runs.started} <Moment at={found.startedAt} />
                {found.endedAt && (
                  <>
                    {' · '}
                    {t.runs.ended} <Moment at={found.endedAt} />
                  </>
                )}
                {found.convertedAt && ` · ${t.runs.converted}`}
              </Text>
              {found.reason && (
                <Alert variant="outline" color="gray" title={t.runs.reason} role="note">
                  <Reason reason={found.reason} words={runReason} withCode />
                </Alert>
              )}
              <Section title={t.runs.path}>
                <Path path={found.path} />
              </Section>
              <Section title={t.runs.trigger}>
                <Json value={found.trigger} />
              </Section>
            </Stack>
          );
        }}
      </Loaded>
    </Page>
  );
}
