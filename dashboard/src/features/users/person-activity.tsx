import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { Status } from '../../components/status';
import { t } from '../../text';
import { EventList } from '../events/event-list';
import { MessageList } from '../messages/message-list';

const NEWEST = 50;

export function PersonEvents({ id }: { id: string }) {
  const { projectId } = useProject();
  const events = useQuery({
    queryKey: [projectId, 'events', 'of', id],
    queryFn: ({ signal }) => read(api.GET('/events', { params: { query: { user: id, limit: NEWEST } }, signal })),
  });
  return (
    <Loaded query={events}>
      {(found) => (
        <>
          <EventList events={found.events} projectId={projectId} empty={<Text>{t.person.noEvents}</Text>} />
          {found.nextCursor !== null && (
            <ScreenLink to="/p/$projectId/events" params={{ projectId }} search={{ user: id }}>
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
    queryFn: ({ signal }) => read(api.GET('/messages', { params: { query: { userId: id, limit: NEWEST } }, signal })),
  });
  return (
    <Loaded query={messages}>
      {(found) => <MessageList messages={found.messages} projectId={projectId} empty={<Text>{t.person.noMessages}</Text>} />}
    </Loaded>
  );
}

/** The newest run in each automation, where there is one. */
export function PersonAutomations({ id }: { id: string }) {
  const { projectId } = useProject();
  const runs = useQuery({
    queryKey: [projectId, 'runs', 'of', id],
    async queryFn({ signal }) {
      const { automations } = await read(api.GET('/automations', { signal }));
      const newest = automations.map(async (automation) => {
        const query = { userId: id, limit: 1 };
        const { runs } = await read(api.GET('/automations/{id}/runs', { params: { path: { id: automation.id }, query }, signal }));
        return { automation, run: runs[0] };
      });
      return (await Promise.all(newest)).filter(({ run }) => run !== undefined);
    },
  });
  return (
    <Loaded query={runs}>
      {(rows) => (
        <Listing
          label={t.nav.automations}
          rows={rows}
          id={({ automation }) => automation.id}
          empty={<Text>{t.person.noRuns}</Text>}
          columns={[
            { title: t.person.automation, cell: ({ automation }) => <ScreenLink to="/p/$projectId/automations/$automationId" params={{ projectId, automationId: automation.id }}>{automation.name}</ScreenLink> },
            { title: t.person.status, cell: ({ run }) => run && <Status of={run.status} /> },
            { title: t.events.at, cell: ({ run }) => <Moment at={run?.startedAt} /> },
            {
              title: t.person.run,
              cell: ({ automation, run }) => run && <ScreenLink to="/p/$projectId/automations/$automationId/runs/$runId" params={{ projectId, automationId: automation.id, runId: run.id }}>{t.runs.path}</ScreenLink>,
            },
          ]}
        />
      )}
    </Loaded>
  );
}
