import { Button, Group, Stack, Stepper } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { ApiFailure } from '../../api/failure';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { KeepChanges, useDraft } from '../../components/draft';
import { Failure } from '../../components/failure';
import { Page } from '../../components/page';
import { t } from '../../text';
import { EMPTY, type Plan, changeOf, inputOf, isTimed, planOf } from './plan';
import { Summary } from './summary';
import { Audience } from './wizard-audience';
import { Content } from './wizard-content';
import { Schedule } from './wizard-schedule';

/** The step where a field that the API names is asked for. */
const ASKED_IN: Array<[RegExp, number]> = [
  [/^(name|segmentId|excludeSegmentIds|subscriptionGroupId)/, 0],
  [/^(channel|templateId|variants|winner|goal)/, 1],
  [/^(scheduledAt|throttlePerMinute|sendInUserTimezone|recurrence)/, 2],
];

function stepOf(error: unknown): number | undefined {
  const field = error instanceof ApiFailure ? error.details[0]?.field : undefined;
  return field === undefined ? undefined : ASKED_IN.find(([names]) => names.test(field))?.[1];
}

interface Props {
  stored: Schemas['Campaign'] | null;
  /** The project's timezone. */
  zone: string;
  onDone?: () => void;
}

export function Wizard({ stored, zone, onDone }: Props) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [step, setStep] = useState(0);
  const draft = useDraft(stored ? planOf(stored, zone) : EMPTY);
  const saving = useMutation({
    mutationFn(plan: Plan) {
      if (stored) return read(api.PUT('/campaigns/{id}', { params: { path: { id: stored.id } }, body: changeOf(plan, draft.base, zone) }));
      return read(api.POST('/campaigns', { body: inputOf(plan, zone) as Schemas['CampaignInput'] & { name: string; channel: Schemas['Channel']; segmentId: string } }));
    },
    async onSuccess(saved, sent) {
      draft.settle(sent, planOf(saved, zone));
      notify(saved.status === 'SCHEDULED' ? t.campaigns.scheduled : t.campaigns.saved);
      client.setQueryData([projectId, 'campaign', saved.id], saved);
      void client.invalidateQueries({ queryKey: [projectId, 'campaigns'] });
      onDone?.();
      await navigate({ to: '/p/$projectId/campaigns/$campaignId', params: { projectId, campaignId: saved.id }, replace: true, ignoreBlocker: true });
    },
    onError: (error) => setStep(stepOf(error) ?? step),
  });
  const parts = { plan: draft.value, zone, set: draft.set, error: saving.error };
  const last = 3;
  return (
    <Page title={stored ? stored.name : t.campaigns.newTitle}>
      <KeepChanges when={draft.isDirty} />
      <Failure error={saving.error} />
      <Stepper active={step} onStepClick={setStep} size="sm" wrap>
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
        <Button variant="default" disabled={step === 0} onClick={() => setStep(step - 1)}>
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
            <Button onClick={() => saving.mutate(draft.value)} loading={saving.isPending} disabled={stored !== null && !draft.isDirty}>
              {isTimed(draft.value) && stored?.status !== 'PAUSED' ? t.campaigns.scheduleIt : t.campaigns.saveDraft}
            </Button>
          )}
        </Group>
      </Group>
    </Page>
  );
}
