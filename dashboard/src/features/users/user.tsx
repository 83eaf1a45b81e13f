import { Grid, Group, Stack, Tabs, Text } from '@mantine/core';
import { type QueryKey, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { USER_TABS } from '../../app/values';
import { ConfirmButton } from '../../components/confirm-button';
import { type Fact, Facts } from '../../components/facts';
import { Loaded } from '../../components/failure';
import { Json } from '../../components/json';
import { Moment } from '../../components/moment';
import { Page, Section } from '../../components/page';
import { t } from '../../text';
import { type UserIdentity, SendEvent } from '../events/send-event';
import { EditUser } from './edit-user';
import { displayName } from './user-list';
import { UserAutomations, UserEvents, UserMessages } from './user-activity';
import { UserSegments, UserSubscriptions } from './user-memberships';
import { INTERNAL } from './user-ref';

const route = getRouteApi('/p/$projectId/users/$userId');

export function UserScreen() {
  const { projectId } = useProject();
  const { userId } = route.useParams();
  const { idType } = route.useSearch();
  const queryKey = [projectId, 'user', userId, idType];
  const user = useQuery({
    queryKey,
    queryFn: ({ signal }) =>
      read(api.GET('/users/{id}', { params: { path: { id: userId }, query: { idType } }, signal })),
  });
  if (!user.data)
    return (
      <Page title={userId}>
        <Loaded query={user}>{() => null}</Loaded>
      </Page>
    );
  return <UserDetails key={`${idType} ${userId}`} user={user.data} queryKey={queryKey} />;
}

function UserDetails({ user, queryKey }: { user: Schemas['Person']; queryKey: QueryKey }) {
  const { projectId } = useProject();
  const navigate = route.useNavigate();
  const { tab = 'events' } = route.useSearch();
  const client = useQueryClient();
  const [editing, setEditing] = useState(false);
  const erase = () => read(api.DELETE('/users/{id}', { params: { path: { id: user.id }, query: INTERNAL } }));
  const leave = (isMounted: boolean) => {
    notify(t.user.erased);
    client.removeQueries({ queryKey });
    void client.invalidateQueries({ queryKey: [projectId] });
    if (isMounted) void navigate({ to: '/p/$projectId/users', params: { projectId } });
  };
  const identity: UserIdentity | null =
    user.externalId !== null
      ? { userId: user.externalId }
      : user.anonymousId !== null
        ? { anonymousId: user.anonymousId }
        : null;
  const show = (chosen: string | null) =>
    void navigate({
      search: (before) => ({ ...before, tab: USER_TABS.find((each) => each === chosen) }),
      replace: true,
    });
  const panels = {
    events: <UserEvents id={user.id} />,
    messages: <UserMessages id={user.id} />,
    segments: <UserSegments id={user.id} />,
    automations: <UserAutomations id={user.id} />,
    subscriptions: <UserSubscriptions id={user.id} />,
  };
  return (
    <Page
      title={displayName(user)}
      actions={
        <>
          {identity && <SendEvent of={identity} />}
          <ConfirmButton
            label={t.user.erase}
            title={t.user.eraseTitle}
            confirmationText={user.externalId ?? user.anonymousId ?? user.id}
            size="sm"
            action={erase}
            onDone={leave}
          >
            {t.user.eraseText}
          </ConfirmButton>
        </>
      }
    >
      <Grid gap="lg">
        <Grid.Col span={{ base: 12, md: 4 }}>
          <Stack>
            <Profile user={user} />
            <Section title={t.user.properties}>
              {editing ? (
                <EditUser user={user} queryKey={queryKey} onDone={() => setEditing(false)} />
              ) : (
                <Json value={user.properties} />
              )}
              {!editing && (
                <Group mt="xs">
                  <EditUser.Open onClick={() => setEditing(true)} />
                </Group>
              )}
            </Section>
            <Devices devices={user.devices} />
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 8 }}>
          <Tabs value={tab} onChange={show} keepMounted={false}>
            <Tabs.List aria-label={displayName(user)}>
              {USER_TABS.map((each) => (
                <Tabs.Tab key={each} value={each}>
                  {t.user.tabs[each]}
                </Tabs.Tab>
              ))}
            </Tabs.List>
            {USER_TABS.map((each) => (
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

function Profile({ user }: { user: Schemas['Person'] }) {
  const facts: Fact[] = [
    [t.users.email, user.email ?? '–'],
    [t.user.externalId, user.externalId ?? '–'],
    [t.user.anonymousId, user.anonymousId ?? '–'],
    [t.user.internalId, user.id],
    [t.user.since, <Moment key="since" at={user.createdAt} />],
    [t.user.seen, <Moment key="seen" at={user.lastSeenAt} />],
  ];
  return <Facts label={t.user.profile} facts={facts} />;
}

function Devices({ devices }: { devices: Schemas['Person']['devices'] }) {
  return (
    <Section title={t.user.devices}>
      {devices.length === 0 ? (
        <Text size="sm">{t.user.noDevices}</Text>
      ) : (
        devices.map((device) => (
          <Text size="sm" key={device.id}>
            {t.devices.platforms[device.platform]} · {t.user.registered} <Moment at={device.updatedAt} />
          </Text>
        ))
      )}
    </Section>
  );
}
