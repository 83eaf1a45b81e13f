import { Button, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Schemas } from '../../api/client';
import { Listing } from '../../components/listing';
import { ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { t } from '../../text';

type Event = Schemas['Event'];

interface Props {
  events: Event[];
  projectId: string;
  /** Opens the details of an event. */
  onShow?: (event: Event) => void;
  empty: ReactNode;
}

export function EventList({ events, projectId, onShow, empty }: Props) {
  const name = (event: Event) =>
    onShow ? (
      <Button size="compact-sm" variant="subtle" px={0} onClick={() => onShow(event)}>
        {event.eventName}
      </Button>
    ) : (
      event.eventName
    );
  return (
    <Listing
      label={t.events.title}
      rows={events}
      id={(event) => event.id}
      empty={empty}
      columns={[
        { title: t.events.at, cell: (event) => <Moment at={event.timestamp} /> },
        { title: t.events.name, cell: name },
        {
          title: t.events.user,
          cell: (event) => {
            const userId = event.userId ?? event.anonymousId;
            return userId === null ? (
              '–'
            ) : (
              <ScreenLink to="/p/$projectId/users/$userId" params={{ projectId, userId }}>
                {userId}
              </ScreenLink>
            );
          },
        },
        {
          title: t.events.properties,
          cell: (event) => (
            <Text size="sm" c="dimmed" lineClamp={1} maw={360} ff="monospace">
              {JSON.stringify(event.properties)}
            </Text>
          ),
        },
      ]}
    />
  );
}
