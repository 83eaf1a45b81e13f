import { Box, Group, Stack, Text, ThemeIcon } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { useProject } from '../../app/project';
import { ButtonLink } from '../../components/links';
import { t } from '../../text';
import { localServer } from '../channels/mailbox';
import { SendEvent } from '../events/send-event';
import { AddPerson } from '../users/add-person';
import { type Found, STEPS, type StepName, candidate, doneOf, nextOf, startOf } from './progress';

/** Each step, whether it is done, and the act that does it; what comes next stands out. */
export function StepsToTake({ found }: { found: Found }) {
  const { projectId, isAdmin } = useProject();
  const [added, setAdded] = useState<string>();
  const done = doneOf(found);
  const next = nextOf(done, isAdmin);
  const { automation, message } = found;
  const variant = (step: StepName) => (step === next ? 'filled' : 'default');
  const event = startOf(automation);
  const look = (step: StepName) => ({ size: 'xs', variant: variant(step) }) as const;
  const acts: Record<StepName, ReactNode> = {
    channel: isAdmin && (
      <ButtonLink {...look('channel')} to="/p/$projectId/channels" params={{ projectId }}>
        {t.overview.acts.channel}
      </ButtonLink>
    ),
    template: (
      <ButtonLink
        {...look('template')}
        to="/p/$projectId/templates/$templateId"
        params={{ projectId, templateId: 'new' }}
      >
        {t.overview.acts.template}
      </ButtonLink>
    ),
    automation: (
      <ButtonLink
        {...look('automation')}
        to="/p/$projectId/automations/$automationId"
        params={{ projectId, automationId: automation?.id ?? 'new' }}
      >
        {automation ? t.overview.acts.open : t.overview.acts.automation}
      </ButtonLink>
    ),
    person: <AddPerson {...look('person')} onAdded={setAdded} />,
    event: <SendEvent {...look('event')} event={event} user={added ?? candidate(found.people)} />,
    message: message && (
      <ButtonLink
        {...look('message')}
        to="/p/$projectId/messages/$messageId"
        params={{ projectId, messageId: message.id }}
      >
        {t.overview.acts.message}
      </ButtonLink>
    ),
  };
  const texts: Record<StepName, string> = {
    ...t.overview.stepTexts,
    channel: channelText(found, isAdmin),
    automation: automation && !automation.active ? t.overview.inactive : t.overview.stepTexts.automation,
    event: event ? t.overview.eventOf(event) : t.overview.stepTexts.event,
    message: message && !done.message ? t.overview.messageNow(message.status) : t.overview.stepTexts.message,
  };
  return (
    <Stack component="ol" gap="sm" m={0} p={0} style={{ listStyle: 'none' }} aria-label={t.overview.steps}>
      {STEPS.map((step, index) => (
        <Group key={step} component="li" gap="sm" align="flex-start" aria-current={step === next ? 'step' : undefined}>
          <ThemeIcon
            variant={done[step] ? 'filled' : 'default'}
            color="teal.9"
            radius="xl"
            size="md"
            role="img"
            aria-label={t.overview.mark(index + 1, done[step])}
          >
            <span aria-hidden>{done[step] ? '✓' : index + 1}</span>
          </ThemeIcon>
          <Box style={{ flex: '1 1 200px' }}>
            <Text fw={step === next ? 600 : 500}>{t.overview.stepTitles[step]}</Text>
            <Text size="sm" c="dimmed">
              {texts[step]}
            </Text>
          </Box>
          {acts[step]}
        </Group>
      ))}
    </Stack>
  );
}

function channelText({ channels: { email } }: Found, isAdmin: boolean): string {
  const local = localServer(email);
  if (local) return local.isMailbox ? t.overview.mailbox(local.server) : t.overview.local(local.server);
  return isAdmin ? t.overview.stepTexts.channel : t.overview.channelMember;
}
