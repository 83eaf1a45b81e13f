import { Checkbox, NativeSelect, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { useProject } from '../../app/project';
import { Failure, Loaded } from '../../components/failure';
import { ScreenLink } from '../../components/links';
import { t } from '../../text';
import { choices, useSegments } from '../segments/all-segments';
import type { Plan } from './plan';

export interface PartProps {
  plan: Plan;
  /** The project's time zone. */
  zone: string;
  set: (change: Partial<Plan>) => void;
  error: unknown;
}

export function useGroups() {
  const { projectId } = useProject();
  return useQuery({
    queryKey: [projectId, 'subscription-groups'],
    queryFn: ({ signal }) => read(api.GET('/subscription-groups', { signal })),
  });
}

export function Audience({ plan, set, error }: Omit<PartProps, 'zone'>) {
  const { projectId } = useProject();
  const segments = useSegments();
  const groups = useGroups();
  // A segment cannot be both the audience and excluded.
  const choose = (segmentId: string) =>
    set({ segmentId, excludeSegmentIds: plan.excludeSegmentIds.filter((id) => id !== segmentId) });
  const chosen = segments.data?.segments.find((segment) => segment.id === plan.segmentId);
  return (
    <Stack pt="md">
      <TextInput
        label={t.campaigns.name}
        required
        value={plan.name}
        onChange={(event) => set({ name: event.currentTarget.value })}
        error={problemOf(error, 'name')}
      />
      <Loaded query={segments} rows={2}>
        {({ segments: all }) =>
          all.length === 0 && plan.segmentId === '' ? (
            <Text>
              {t.campaigns.noSegments}{' '}
              <ScreenLink
                to="/p/$projectId/segments/$segmentId"
                params={{ projectId, segmentId: 'new' }}
                underline="always"
              >
                {t.campaigns.createSegment}
              </ScreenLink>
            </Text>
          ) : (
            <>
              <NativeSelect
                label={t.campaigns.segment}
                required
                value={plan.segmentId}
                onChange={(event) => choose(event.currentTarget.value)}
                error={problemOf(error, 'segmentId')}
                data={[{ value: '', label: t.campaigns.choose }, ...choices(all, [plan.segmentId])]}
              />
              {chosen && chosen.userCount !== null && (
                <Text size="sm">{t.campaigns.segmentSize(t.number(chosen.userCount))}</Text>
              )}
              <Checkbox.Group
                label={t.campaigns.exclude}
                value={plan.excludeSegmentIds}
                onChange={(excludeSegmentIds) => set({ excludeSegmentIds })}
                error={problemOf(error, 'excludeSegmentIds')}
              >
                {choices(all, plan.excludeSegmentIds)
                  .filter(({ value }) => value !== plan.segmentId)
                  .map(({ value, label }) => (
                    <Checkbox key={value} mt={4} value={value} label={label} />
                  ))}
              </Checkbox.Group>
            </>
          )
        }
      </Loaded>
      <NativeSelect
        label={t.campaigns.group}
        description={t.campaigns.groupHint}
        value={plan.subscriptionGroupId}
        onChange={(event) => set({ subscriptionGroupId: event.currentTarget.value })}
        error={problemOf(error, 'subscriptionGroupId')}
        data={[{ value: '', label: t.none }, ...choices(groups.data?.groups, [plan.subscriptionGroupId])]}
      />
      <Failure error={groups.error} onRetry={() => void groups.refetch()} />
    </Stack>
  );
}
