import { Group, Paper, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import type { Schemas } from '../../api/client';
import { useProject } from '../../app/project';
import { ScreenLink } from '../../components/links';
import { t } from '../../text';
import { SendEvent } from '../events/send-event';
import { AddPerson } from '../users/add-person';

/** Of an automation that waits for an event: how to see it work, without an app that sends one. */
export function TryIt({
  automation: { id, active, triggerType, triggerEvent },
}: {
  automation: Schemas['Automation'];
}) {
  const { projectId } = useProject();
  const [person, setPerson] = useState('');
  const [sent, setSent] = useState<string | null>(null);
  if (!active || triggerType !== 'EVENT' || !triggerEvent) return null;
  return (
    <Paper withBorder p="md" component="section" aria-label={t.automations.tryIt}>
      <Stack gap="xs">
        <Text size="sm">
          <b>{t.automations.tryIt}</b> {t.automations.tryItText(triggerEvent)}
        </Text>
        <Group gap="xs">
          <SendEvent
            size="xs"
            event={triggerEvent}
            user={person}
            onSent={(event, user) => event === triggerEvent && setSent(user)}
          />
          <AddPerson size="xs" onAdded={setPerson} />
        </Group>
        {sent !== null && (
          <Group gap="xs" role="status">
            <Text size="sm">{t.automations.triedBy(sent)}</Text>
            <ScreenLink
              fz="sm"
              to="/p/$projectId/automations/$automationId/runs"
              params={{ projectId, automationId: id }}
              search={{ user: sent }}
            >
              {t.automations.triedRuns}
            </ScreenLink>
            <ScreenLink
              fz="sm"
              to="/p/$projectId/users/$userId"
              params={{ projectId, userId: sent }}
              search={{ tab: 'messages' }}
            >
              {t.automations.triedMessages}
            </ScreenLink>
          </Group>
        )}
      </Stack>
    </Paper>
  );
}
