import { Stack, Tabs, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useProject } from '../../app/project';
import { CHANNEL_TABS } from '../../app/values';
import { Loaded } from '../../components/failure';
import { Page } from '../../components/page';
import { t } from '../../text';
import { ChannelForm } from './channel-form';
import { channelsQuery } from './channels-record';
import { Devices } from './devices';
import { EMAIL, PUSH, SMS } from './fields';
import { Limits } from './limits';
import { TestChannel } from './test-channel';

const route = getRouteApi('/p/$projectId/channels');

export function ChannelsScreen() {
  const { projectId, isAdmin } = useProject();
  const { tab = 'email' } = route.useSearch();
  const navigate = route.useNavigate();
  // The tab is part of the URL, so that unsaved changes are guarded as with any navigation.
  const show = (chosen: string | null) =>
    void navigate({ search: { tab: CHANNEL_TABS.find((each) => each === chosen) }, replace: true });
  const channels = useQuery(channelsQuery(projectId));
  return (
    <Page title={t.channels.title}>
      {!isAdmin && <Text>{t.adminOnly}</Text>}
      <Loaded query={channels} rows={8}>
        {(found) => (
          <Tabs value={tab} onChange={show} keepMounted={false}>
            <Tabs.List aria-label={t.channels.title}>
              <Tabs.Tab value="email">{t.channels.email}</Tabs.Tab>
              <Tabs.Tab value="push">{t.channels.push}</Tabs.Tab>
              <Tabs.Tab value="sms">{t.channels.sms}</Tabs.Tab>
              <Tabs.Tab value="in_app">{t.channels.inApp}</Tabs.Tab>
              <Tabs.Tab value="devices">{t.devices.title}</Tabs.Tab>
              <Tabs.Tab value="limits">{t.channels.limits}</Tabs.Tab>
            </Tabs.List>
            <Tabs.Panel value="email" pt="md">
              <Stack gap="xl">
                <ChannelForm fields={EMAIL} channel="email" channels={found} />
                {isAdmin && <TestChannel channel="email" />}
              </Stack>
            </Tabs.Panel>
            <Tabs.Panel value="push" pt="md">
              <Stack gap="xl">
                {found.value.push.sharedApp && <Text size="sm">{t.channels.sharedApp}</Text>}
                <ChannelForm fields={PUSH} channel="push" channels={found} />
                <details>
                  <summary>{t.channels.checklist}</summary>
                  <ul>
                    {t.channels.checks.map((check) => (
                      <li key={check}>
                        <Text size="sm">{check}</Text>
                      </li>
                    ))}
                  </ul>
                </details>
                {isAdmin && <TestChannel channel="push" />}
              </Stack>
            </Tabs.Panel>
            <Tabs.Panel value="sms" pt="md">
              <Stack gap="xl">
                <ChannelForm fields={SMS} channel="sms" channels={found} />
                {isAdmin && <TestChannel channel="sms" />}
              </Stack>
            </Tabs.Panel>
            <Tabs.Panel value="in_app" pt="md">
              <Stack gap="xl">
                <Text>{t.channels.inAppText}</Text>
                {isAdmin && <TestChannel channel="in_app" />}
              </Stack>
            </Tabs.Panel>
            <Tabs.Panel value="devices" pt="md">
              <Devices />
            </Tabs.Panel>
            <Tabs.Panel value="limits" pt="md">
              <Limits channels={found} />
            </Tabs.Panel>
          </Tabs>
        )}
      </Loaded>
    </Page>
  );
}
