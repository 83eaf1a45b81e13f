import { Grid, Group, Stack, Tabs, Text } from '@mantine/core';
import { type QueryKey, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { PERSON_TABS } from '../../app/values';
import { Ask } from '../../components/ask';
import { type Fact, Facts } from '../../components/facts';
import { Loaded } from '../../components/failure';
import { Json } from '../../components/json';
import { Moment } from '../../components/moment';
import { Page, Section } from '../../components/page';
import { t } from '../../text';
import { type Known, SendEvent } from '../events/send-event';
import { EditPerson } from './edit-person';
import { personName } from './people-list';
import { PersonAutomations, PersonEvents, PersonMessages } from './person-activity';
import { PersonSegments, PersonSubscriptions } from './person-belongings';
import { INTERNAL } from './user-ref';

const route = getRouteApi('/p/$projectId/users/$userId');

export function PersonScreen() {
  const { projectId } = useProject();
  const { userId } = route.useParams();
  const { idType } = route.useSearch();
  const queryKey = [projectId, 'user', userId, idType];
  const person = useQuery({
    queryKey,
    queryFn: ({ signal }) =>
      read(api.GET('/users/{id}', { params: { path: { id: userId }, query: { idType } }, signal })),
  });
  if (!person.data)
    return (
      <Page title={userId}>
        <Loaded query={person}>{() => null}</Loaded>
      </Page>
    );
  return <Person key={`${idType} ${userId}`} person={person.data} queryKey={queryKey} />;
}

function Person({ person, queryKey }: { person: Schemas['Person']; queryKey: QueryKey }) {
  const { projectId } = useProject();
  const navigate = route.useNavigate();
  const { tab = 'events' } = route.useSearch();
  const client = useQueryClient();
  const [editing, setEditing] = useState(false);
  const erase = () => read(api.DELETE('/users/{id}', { params: { path: { id: person.id }, query: INTERNAL } }));
  const leave = (isHere: boolean) => {
    notify(t.person.erased);
    client.removeQueries({ queryKey });
    void client.invalidateQueries({ queryKey: [projectId] });
    if (isHere) void navigate({ to: '/p/$projectId/users', params: { projectId } });
  };
  const known: Known | null =
    person.externalId !== null
      ? { userId: person.externalId }
      : person.anonymousId !== null
        ? { anonymousId: person.anonymousId }
        : null;
  const show = (chosen: string | null) =>
    void navigate({
      search: (before) => ({ ...before, tab: PERSON_TABS.find((each) => each === chosen) }),
      replace: true,
    });
  const panels = {
    events: <PersonEvents id={person.id} />,
    messages: <PersonMessages id={person.id} />,
    segments: <PersonSegments id={person.id} />,
    automations: <PersonAutomations id={person.id} />,
    subscriptions: <PersonSubscriptions id={person.id} />,
  };
  return (
    <Page
      title={personName(person)}
      actions={
        <>
          {known && <SendEvent of={known} />}
          <Ask
            label={t.person.erase}
            title={t.person.eraseTitle}
            typed={person.externalId ?? person.anonymousId ?? person.id}
            size="sm"
            act={erase}
            onDone={leave}
          >
            {t.person.eraseText}
          </Ask>
        </>
      }
    >
      <Grid gap="lg">
        <Grid.Col span={{ base: 12, md: 4 }}>
          <Stack>
            <Profile person={person} />
            <Section title={t.person.properties}>
              {editing ? (
                <EditPerson person={person} queryKey={queryKey} onDone={() => setEditing(false)} />
              ) : (
                <Json value={person.properties} />
              )}
              {!editing && (
                <Group mt="xs">
                  <EditPerson.Open onClick={() => setEditing(true)} />
                </Group>
              )}
            </Section>
            <Devices devices={person.devices} />
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 8 }}>
          <Tabs value={tab} onChange={show} keepMounted={false}>
            <Tabs.List aria-label={personName(person)}>
              {PERSON_TABS.map((each) => (
                <Tabs.Tab key={each} value={each}>
                  {t.person.tabs[each]}
                </Tabs.Tab>
              ))}
            </Tabs.List>
            {PERSON_TABS.map((each) => (
              <Tabs.Panel key={each} value={each} pt="md">
                {panels[each]}
              </Tabs.Panel>
            ))}
          </Tabs>
        </Grid.Col>
      </Grid>
    </Page>
  );
}

function Profile({ person }: { person: Schemas['Person'] }) {
  const facts: Fact[] = [
    [t.users.email, person.email ?? '–'],
    [t.person.externalId, person.externalId ?? '–'],
    [t.person.anonymousId, person.anonymousId ?? '–'],
    [t.person.internalId, person.id],
    [t.person.since, <Moment key="since" at={person.createdAt} />],
    [t.person.seen, <Moment key="seen" at={person.lastSeenAt} />],
  ];
  return <Facts label={t.person.profile} facts={facts} />;
}

function Devices({ devices }: { devices: Schemas['Person']['devices'] }) {
  return (
    <Section title={t.person.devices}>
      {devices.length === 0 ? (
        <Text size="sm">{t.person.noDevices}</Text>
      ) : (
        devices.map((device) => (
          <Text size="sm" key={device.id}>
            {device.platform} · {t.person.registered} <Moment at={device.updatedAt} />
          </Text>
        ))
      )}
    </Section>
  );
}
