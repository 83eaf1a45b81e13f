import { Text } from '@mantine/core';
import { type QueryClient, useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { type Schemas, api, apiFor, read } from '../../api/client';
import { useProject } from '../../app/project';
import { Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { More } from '../../components/more';
import { Status } from '../../components/status';
import { t } from '../../text';
import { EventList } from '../events/event-list';
import { MessageList } from '../messages/message-list';
import { INTERNAL } from './user-ref';

const LIMIT = 50;
const POLL_MS = 5_000;
/** Number of automations per page. Each needs a request for the user's run. */
const AUTOMATIONS_PER_PAGE = 10;
const AUTOMATIONS_STALE_MS = 60_000;

export function UserEvents({ id }: { id: string }) {
  const { projectId } = useProject();
  const events = useQuery({
    queryKey: [projectId, 'events', 'of', id],
    queryFn: ({ signal }) =>
      read(api.GET('/events', { params: { query: { ...INTERNAL, user: id, limit: LIMIT } }, signal })),
    refetchInterval: POLL_MS,
  });
  return (
    <Loaded query={events}>
      {(found) => (
        <>
          <EventList events={found.events} projectId={projectId} empty={<Text>{t.user.noEvents}</Text>} />
          {found.nextCursor !== null && (
            <ScreenLink to="/p/$projectId/events" params={{ projectId }} search={{ ...INTERNAL, user: id }}>
              {t.user.allEvents}
            </ScreenLink>
          )}
        </>
      )}
    </Loaded>
  );
}

export function UserMessages({ id }: { id: string }) {
  const { projectId } = useProject();
  const messages = useQuery({
    queryKey: [projectId, 'messages', 'of', id],
    queryFn: ({ signal }) =>
      read(api.GET('/messages', { params: { query: { ...INTERNAL, userId: id, limit: LIMIT } }, signal })),
    refetchInterval: POLL_MS,
  });
  return (
    <Loaded query={messages}>
      {(found) => (
        <MessageList messages={found.messages} projectId={projectId} empty={<Text>{t.user.noMessages}</Text>} />
      )}
    </Loaded>
  );
}

/** A position in the list of automations. */
interface PagePosition {
  cursor?: string;
  from: number;
}

/** Loads a page of automations. It is cached, because {@link UserAutomations} shows it in smaller parts. */
function automationsAt(client: QueryClient, projectId: string, cursor: string | undefined) {
  return client.fetchQuery({
    queryKey: [projectId, 'automations', 'at', cursor],
    queryFn: ({ signal }) => read(apiFor(projectId).GET('/automations', { params: { query: { cursor } }, signal })),
    staleTime: AUTOMATIONS_STALE_MS,
  });
}

/** The user's newest run in each automation that they entered. */
export function UserAutomations({ id }: { id: string }) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const runs = useInfiniteQuery({
    queryKey: [projectId, 'runs', 'of', id],
    async queryFn({ signal, pageParam: { cursor, from } }) {
      const { automations, nextCursor } = await automationsAt(client, projectId, cursor);
      const runOf = async (automation: Schemas['Automation']) => {
        const query = { ...INTERNAL, userId: id, limit: 1 };
        const { runs } = await read(
          apiFor(projectId).GET('/automations/{id}/runs', { params: { path: { id: automation.id }, query }, signal }),
        );
        return { automation, run: runs[0] };
      };
      const runs = await Promise.all(automations.slice(from, from + AUTOMATIONS_PER_PAGE).map(runOf));
      const next: PagePosition | undefined =
        from + AUTOMATIONS_PER_PAGE < automations.length
          ? { cursor, from: from + AUTOMATIONS_PER_PAGE }
          : nextCursor
            ? { cursor: nextCursor, from: 0 }
            : undefined;
      return { rows: runs.filter(({ run }) => run !== undefined), next };
    },
    initialPageParam: { from: 0 } as PagePosition,
    getNextPageParam: (last) => last.next,
  });
  return (
    <More query={runs} rows={(page) => page.rows}>
      {(rows) => (
        <Listing
          label={t.nav.automations}
          rows={rows}
          id={({ automation }) => automation.id}
          empty={<Text>{runs.hasNextPage ? t.user.noRunsSoFar : t.user.noRuns}</Text>}
          columns={[
            {
              title: t.user.automation,
              cell: ({ automation }) => (
                <ScreenLink
                  to="/p/$projectId/automations/$automationId"
                  params={{ projectId, automationId: automation.id }}
                >
                  {automation.name}
                </ScreenLink>
              ),
            },
            { title: t.user.status, cell: ({ run }) => run && <Status of={run.status} /> },
            { title: t.events.at, cell: ({ run }) => <Moment at={run?.startedAt} /> },
            {
              title: t.user.run,
              cell: ({ automation, run }) =>
                run && (
                  <ScreenLink
                    to="/p/$projectId/automations/$automationId/runs/$runId"
                    params={{ projectId, automationId: automation.id, runId: run.id }}
                  >
                    {t.runs.path}
                  </ScreenLink>
                ),
            },
          ]}
        />
      )}
    </More>
  );
}
