import { Box, Group, Stack, Text, ThemeIcon } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { useProject } from '../../app/project';
import { ButtonLink } from '../../components/links';
import { t } from '../../text';
import { localServer } from '../channels/mailbox';
import { SendEvent } from '../events/send-event';
import { AddUser } from '../users/add-user';
import {
  type Progress,
  STEPS,
  type StepName,
  sampleUserId,
  completedSteps,
  nextStepOf,
  triggerEventOf,
} from './progress';

/** The steps with their state and actions. The next step is highlighted. */
export function Checklist({ progress }: { progress: Progress }) {
  const { projectId, isAdmin } = useProject();
  const [added, setAdded] = useState<string>();
  const done = completedSteps(progress);
  const next = nextStepOf(done, isAdmin);
  const { automation, message } = progress;
  const variant = (step: StepName) => (step === next ? 'filled' : 'default');
  const event = triggerEventOf(automation);
  const buttonProps = (step: StepName) => ({ size: 'xs', variant: variant(step) }) as const;
  const actions: Record<StepName, ReactNode> = {
    channel: isAdmin && (
      <ButtonLink {...buttonProps('channel')} to="/p/$projectId/channels" params={{ projectId }}>
        {t.overview.actions.channel}
      </ButtonLink>
    ),
    template: (
      <ButtonLink
        {...buttonProps('template')}
        to="/p/$projectId/templates/$templateId"
        params={{ projectId, templateId: 'new' }}
      >
        {t.overview.actions.template}
      </ButtonLink>
    ),
    automation: (
      <ButtonLink
        {...buttonProps('automation')}
        to="/p/$projectId/automations/$automationId"
        params={{ projectId, automationId: automation?.id ?? 'new' }}
      >
        {automation ? t.overview.actions.open : t.overview.actions.automation}
      </ButtonLink>
    ),
    user: <AddUser {...buttonProps('user')} onAdded={setAdded} />,
    event: <SendEvent {...buttonProps('event')} event={event} user={added ?? sampleUserId(progress.users)} />,
    message: message && (
      <ButtonLink
        {...buttonProps('message')}
        to="/p/$projectId/messages/$messageId"
        params={{ projectId, messageId: message.id }}
      >
        {t.overview.actions.message}
      </ButtonLink>
    ),
  };
  const texts: Record<StepName, string> = {
    ...t.overview.stepTexts,
    channel: channelText(progress, isAdmin),
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
            aria-label={t.overview.stepState(index + 1, done[step])}
          >
            <span aria-hidden>{done[step] ? '✓' : index + 1}</span>
          </ThemeIcon>
          <Box style={{ flex: '1 1 200px' }}>
            <Text fw={step === next ? 600 : 500}>{t.overview.stepTitles[step]}</Text>
            <Text size="sm" c="dimmed">
              {texts[step]}
            </Text>
          </Box>
          {actions[step]}
        </Group>
      ))}
    </Stack>
  );
}

function channelText({ channels: { email } }: Progress, isAdmin: boolean): string {
  const local = localServer(email);
  if (local) return local.isMailbox ? t.overview.mailbox(local.server) : t.overview.local(local.server);
  return isAdmin ? t.overview.stepTexts.channel : t.overview.channelMember;
}
