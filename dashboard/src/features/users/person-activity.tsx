import { Text } from '@mantine/core';
import { type QueryClient, useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { type Schemas, api, apiOf, read } from '../../api/client';
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

const NEWEST = 50;
const AGAIN_MS = 5_000;
/** Each automation is asked for the person's run: so many at once. */
const FEW = 10;
const LISTED_MS = 60_000;

export function PersonEvents({ id }: { id: string }) {
  const { projectId } = useProject();
  const events = useQuery({
    queryKey: [projectId, 'events', 'of', id],
    queryFn: ({ signal }) =>
      read(api.GET('/events', { params: { query: { ...INTERNAL, user: id, limit: NEWEST } }, signal })),
    refetchInterval: AGAIN_MS,
  });
  return (
    <Loaded query={events}>
      {(found) => (
        <>
          <EventList events={found.events} projectId={projectId} empty={<Text>{t.person.noEvents}</Text>} />
          {found.nextCursor !== null && (
            <ScreenLink to="/p/$projectId/events" params={{ projectId }} search={{ ...INTERNAL, user: id }}>
              {t.person.looking}
            </ScreenLink>
          )}
        </>
      )}
    </Loaded>
  );
}

export function PersonMessages({ id }: { id: string }) {
  const { projectId } = useProject();
  const messages = useQuery({
    queryKey: [projectId, 'messages', 'of', id],
    queryFn: ({ signal }) =>
      read(api.GET('/messages', { params: { query: { ...INTERNAL, userId: id, limit: NEWEST } }, signal })),
    refetchInterval: AGAIN_MS,
  });
  return (
    <Loaded query={messages}>
      {(found) => (
        <MessageList messages={found.messages} projectId={projectId} empty={<Text>{t.person.noMessages}</Text>} />
      )}
    </Loaded>
  );
}

/** A place in the list of automations. */
interface Place {
  cursor?: string;
  from: number;
}

/** What the API tells of the automations behind a cursor; a few of them are looked at, and then a few more. */
function automationsAt(client: QueryClient, projectId: string, cursor: string | undefined) {
  return client.fetchQuery({
    queryKey: [projectId, 'automations', 'at', cursor],
    queryFn: ({ signal }) => read(apiOf(projectId).GET('/automations', { params: { query: { cursor } }, signal })),
    staleTime: LISTED_MS,
  });
}

/** The newest run in each automation, where there is one. */
export function PersonAutomations({ id }: { id: string }) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const runs = useInfiniteQuery({
    queryKey: [projectId, 'runs', 'of', id],
    async queryFn({ signal, pageParam: { cursor, from } }) {
      const { automations, nextCursor } = await automationsAt(client, projectId, cursor);
      const runOf = async (automation: Schemas['Automation']) => {
        const query = { ...INTERNAL, userId: id, limit: 1 };
        const { runs } = await read(
          apiOf(projectId).GET('/automations/{id}/runs', { params: { path: { id: automation.id }, query }, signal }),
        );
        return { automation, run: runs[0] };
      };
      const asked = await Promise.all(automations.slice(from, from + FEW).map(runOf));
      const rest: Place | undefined =
        from + FEW < automations.length
          ? { cursor, from: from + FEW }
          : nextCursor
            ? { cursor: nextCursor, from: 0 }
            : undefined;
      return { rows: asked.filter(({ run }) => run !== undefined), rest };
    },
    initialPageParam: { from: 0 } as Place,
    getNextPageParam: (last) => last.rest,
  });
  return (
    <More query={runs} rows={(page) => page.rows}>
      {(rows) => (
        <Listing
          label={t.nav.automations}
          rows={rows}
          id={({ automation }) => automation.id}
          empty={<Text>{runs.hasNextPage ? t.person.noRunsSoFar : t.person.noRuns}</Text>}
          columns={[
            {
              title: t.person.automation,
              cell: ({ automation }) => (
                <ScreenLink
                  to="/p/$projectId/automations/$automationId"
                  params={{ projectId, automationId: automation.id }}
                >
                  {automation.name}
                </ScreenLink>
              ),
            },
            { title: t.person.status, cell: ({ run }) => run && <Status of={run.status} /> },
            { title: t.events.at, cell: ({ run }) => <Moment at={run?.startedAt} /> },
            {
              title: t.person.run,
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
