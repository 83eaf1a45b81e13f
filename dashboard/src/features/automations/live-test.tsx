import { Group, Paper, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import type { Schemas } from '../../api/client';
import { useProject } from '../../app/project';
import { ScreenLink } from '../../components/links';
import { t } from '../../text';
import { SendEvent } from '../events/send-event';
import { AddUser } from '../users/add-user';

/** Tests an active automation with an event trigger, without an app that sends the event. */
export function LiveTest({
  automation: { id, active, triggerType, triggerEvent },
}: {
  automation: Schemas['Automation'];
}) {
  const { projectId } = useProject();
  const [user, setUser] = useState('');
  const [sent, setSent] = useState<string | null>(null);
  if (!active || triggerType !== 'EVENT' || !triggerEvent) return null;
  return (
    <Paper withBorder p="md" component="section" aria-label={t.automations.liveTest}>
      <Stack gap="xs">
        <Text size="sm">
          <b>{t.automations.liveTest}</b> {t.automations.liveTestText(triggerEvent)}
        </Text>
        <Group gap="xs">
          <SendEvent
            size="xs"
            event={triggerEvent}
            user={user}
            onSent={(event, recipient) => event === triggerEvent && setSent(recipient)}
          />
          <AddUser size="xs" onAdded={setUser} />
        </Group>
        {sent !== null && (
          <Group gap="xs" role="status">
            <Text size="sm">{t.automations.liveTestSent(sent)}</Text>
            <ScreenLink
              fz="sm"
              to="/p/$projectId/automations/$automationId/runs"
              params={{ projectId, automationId: id }}
              search={{ user: sent }}
            >
              {t.automations.liveTestRuns}
            </ScreenLink>
            <ScreenLink
              fz="sm"
              to="/p/$projectId/users/$userId"
              params={{ projectId, userId: sent }}
              search={{ tab: 'messages' }}
            >
              {t.automations.liveTestMessages}
            </ScreenLink>
          </Group>
        )}
      </Stack>
    </Paper>
  );
}
