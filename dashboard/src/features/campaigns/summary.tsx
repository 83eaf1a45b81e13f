import { Stack } from '@mantine/core';
import { useQueries } from '@tanstack/react-query';
import { api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { type Fact, Facts } from '../../components/facts';
import { Failure } from '../../components/failure';
import { Moment } from '../../components/moment';
import { t } from '../../text';
import { useTemplateChoices } from '../templates/template-choices';
import { OWN_ZONE, fromLocalTime } from './clock';
import type { Plan } from './plan';
import { useGroups } from './wizard-audience';

/** Loads the segments with these IDs, one request each: the API counts the users of a segment that is read. */
export function useSegmentsById(ids: readonly string[]) {
  const { projectId } = useProject();
  return useQueries({
    queries: ids
      .filter((id) => id !== '')
      .map((id) => ({
        queryKey: [projectId, 'segments', id],
        queryFn: ({ signal }: { signal: AbortSignal }) =>
          read(api.GET('/segments/{id}', { params: { path: { id } }, signal })),
      })),
  });
}

/** Summary of a campaign's settings. */
export function Summary({ plan, zone }: { plan: Plan; zone: string }) {
  const segments = useSegmentsById([plan.segmentId, ...plan.excludeSegmentIds]);
  const templates = useTemplateChoices(plan.channel, [
    plan.templateId,
    ...plan.variants.map(({ templateId }) => templateId),
  ]);
  const groups = useGroups();
  const words = t.campaigns.summary;
  const segment = (id: string) => segments.find(({ data }) => data?.id === id)?.data?.name ?? (id || '–');
  const template = (id: string) => templates.options.find(({ value }) => value === id)?.label ?? (id || '–');
  const content =
    plan.variants.length > 0
      ? words.variants(
          plan.variants
            .map(({ name, templateId, weight }) => `${name} (${template(templateId)}, ${weight}%)`)
            .join(', '),
        )
      : template(plan.templateId);
  const { goal, winner } = plan;
  const facts: Fact[] = [
    [words.audience, segment(plan.segmentId)],
    [words.excluded, plan.excludeSegmentIds.length > 0 ? plan.excludeSegmentIds.map(segment).join(', ') : words.none],
    ...(plan.subscriptionGroupId
      ? [
          [
            words.group,
            groups.data?.groups.find(({ id }) => id === plan.subscriptionGroupId)?.name ?? plan.subscriptionGroupId,
          ] as Fact,
        ]
      : []),
    [words.content, `${t.channelName(plan.channel)}: ${content}`],
    ...(plan.variants.length > 0 && winner
      ? [
          [
            words.winner,
            words.winnerOf(t.campaigns.metrics[winner.metric] ?? winner.metric, winner.testShare, winner.afterMinutes),
          ] as Fact,
        ]
      : []),
    ...(goal ? [[words.goal, words.goalOf(goal.event, goal.within)] as Fact] : []),
    [words.schedule, <When key="at" plan={plan} zone={zone} />],
    [words.rateLimit, plan.throttlePerMinute ? words.perMinute(plan.throttlePerMinute) : words.noLimit],
  ];
  const error = segments.find(({ isError }) => isError)?.error ?? templates.pages.error ?? groups.error;
  return (
    <Stack gap="xs">
      <Failure error={error} />
      <Facts label={words.title} facts={facts} />
    </Stack>
  );
}

function When({ plan, zone }: { plan: Plan; zone: string }) {
  const { recurrence, scheduledAt, sendInUserTimezone } = plan;
  const words = t.campaigns.summary;
  return (
    <>
      {recurrence && <div>{words.recurring(recurrence.cron, recurrence.timezone ?? 'UTC')}</div>}
      {scheduledAt &&
        (sendInUserTimezone ? (
          <div>{words.recipientTime(scheduledAt.replace('T', ' '), zone)}</div>
        ) : (
          <Moment at={fromLocalTime(scheduledAt, OWN_ZONE)} />
        ))}
      {!recurrence && !scheduledAt && <div>{t.campaigns.manualSend}</div>}
      {!scheduledAt && sendInUserTimezone && <div>{words.recipientTimeNow}</div>}
    </>
  );
}
