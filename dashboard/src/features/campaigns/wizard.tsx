import { Button, Group, Stack, Stepper } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type Schemas, type Tagged, apiFor, ifMatch, readTagged } from '../../api/client';
import { ApiFailure } from '../../api/failure';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { namesOf } from '../../app/field-labels';
import { UnsavedChangesGuard } from '../../components/draft';
import { Page } from '../../components/page';
import { NotSaved, useEdited } from '../../components/record';
import { t } from '../../text';
import { EMPTY, type Plan, changeOf, inputOf, isScheduled, planOf } from './plan';
import { Summary } from './summary';
import { Audience } from './wizard-audience';
import { Content } from './wizard-content';
import { Schedule } from './wizard-schedule';

const FIELD_NAMES = namesOf({
  name: t.campaigns.name,
  channel: t.campaigns.channel,
  segmentId: t.campaigns.segment,
  excludeSegmentIds: t.campaigns.exclude,
  subscriptionGroupId: t.campaigns.group,
  templateId: t.campaigns.template,
  variants: t.campaigns.variants,
  'variants[]': t.campaigns.variant,
  'variants[].name': t.campaigns.name,
  'variants[].templateId': t.campaigns.template,
  'variants[].weight': t.campaigns.weight,
  winner: t.campaigns.winner,
  'winner.metric': t.campaigns.metric,
  'winner.testShare': t.campaigns.testShare,
  'winner.afterMinutes': t.campaigns.afterMinutes,
  goal: t.campaigns.goal,
  'goal.event': t.campaigns.goalEvent,
  'goal.within': t.campaigns.goalWithin,
  scheduledAt: t.campaigns.at,
  sendInUserTimezone: t.campaigns.userTime,
  throttlePerMinute: t.campaigns.throttle,
  recurrence: t.campaigns.recurring,
  'recurrence.cron': t.campaigns.cron,
  'recurrence.timezone': t.campaigns.cronZone,
});

/** The wizard step that contains a field. */
const STEP_OF_FIELD: Array<[RegExp, number]> = [
  [/^(name|segmentId|excludeSegmentIds|subscriptionGroupId)/, 0],
  [/^(channel|templateId|variants|winner|goal)/, 1],
  [/^(scheduledAt|throttlePerMinute|sendInUserTimezone|recurrence)/, 2],
];

function stepOf(error: unknown): number | undefined {
  const field = error instanceof ApiFailure ? error.details[0]?.field : undefined;
  return field === undefined ? undefined : STEP_OF_FIELD.find(([names]) => names.test(field))?.[1];
}

type Campaign = Schemas['Campaign'];

interface Props {
  opened: Tagged<Campaign> | null;
  /** The project's time zone. */
  zone: string;
  onDone?: () => void;
}

export function Wizard({ opened, zone, onDone }: Props) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [step, setStep] = useState(0);
  const api = apiFor(projectId);
  const edited = useEdited<Campaign, Plan>({
    opened,
    empty: EMPTY,
    fieldsOf: (campaign) => planOf(campaign, zone),
    create: (plan) =>
      readTagged(
        api.POST('/campaigns', {
          body: inputOf(plan, zone) as Schemas['CampaignInput'] & {
            name: string;
            channel: Schemas['Channel'];
            segmentId: string;
          },
        }),
      ),
    change: ({ id }, plan, base, tag) =>
      readTagged(
        api.PUT('/campaigns/{id}', {
          params: { path: { id }, header: ifMatch(tag) },
          body: changeOf(plan, base, zone),
        }),
      ),
    reload: ({ id }) => readTagged(api.GET('/campaigns/{id}', { params: { path: { id } } })),
    async onSaved(saved, { isMounted }) {
      const { id, status } = saved.value;
      notify(status === 'SCHEDULED' ? t.campaigns.scheduled : t.campaigns.saved);
      client.setQueryData([projectId, 'campaign', id], saved);
      void client.invalidateQueries({ queryKey: [projectId, 'campaigns'] });
      if (!isMounted) return;
      onDone?.();
      await navigate({
        to: '/p/$projectId/campaigns/$campaignId',
        params: { projectId, campaignId: id },
        replace: true,
        ignoreBlocker: true,
      });
    },
    onError: (error) => setStep(stepOf(error) ?? step),
  });
  const { stored, draft, saving } = edited;
  const parts = { plan: draft.value, zone, set: draft.set, error: saving.error };
  const last = 3;
  return (
    <Page title={stored ? stored.name : t.campaigns.newTitle}>
      <UnsavedChangesGuard when={draft.isDirty} />
      <NotSaved edited={edited} nameField={FIELD_NAMES} />
      {/* Steps cannot be changed while saving: the next screen would discard new input. */}
      <Stepper active={step} onStepClick={saving.isPending ? undefined : setStep} size="sm" wrap>
        <Stepper.Step label={t.campaigns.steps.audience}>
          <Audience {...parts} />
        </Stepper.Step>
        <Stepper.Step label={t.campaigns.steps.content}>
          <Content {...parts} />
        </Stepper.Step>
        <Stepper.Step label={t.campaigns.steps.schedule}>
          <Schedule {...parts} />
        </Stepper.Step>
        <Stepper.Step label={t.campaigns.steps.review}>
          <Stack pt="md">
            <Summary plan={draft.value} zone={zone} />
          </Stack>
        </Stepper.Step>
      </Stepper>
      <Group justify="space-between">
        <Button variant="default" disabled={step === 0 || saving.isPending} onClick={() => setStep(step - 1)}>
          {t.campaigns.back}
        </Button>
        <Group>
          {onDone && (
            <Button variant="default" onClick={onDone}>
              {t.cancel}
            </Button>
          )}
          {step < last ? (
            <Button onClick={() => setStep(step + 1)}>{t.campaigns.next}</Button>
          ) : (
            <Button onClick={edited.save} loading={saving.isPending} disabled={stored !== null && !draft.isDirty}>
              {isScheduled(draft.value) && stored?.status !== 'PAUSED' ? t.campaigns.schedule : t.campaigns.saveDraft}
            </Button>
          )}
        </Group>
      </Group>
    </Page>
  );
}
