import { Checkbox, NativeSelect, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { useProject } from '../../app/project';
import { Loaded } from '../../components/failure';
import { ScreenLink } from '../../components/links';
import { t } from '../../text';
import { everySegment } from '../segments/segment-queries';
import type { Plan } from './plan';

export interface PartProps {
  plan: Plan;
  set: (change: Partial<Plan>) => void;
  error: unknown;
}

export function useSegments() {
  const { projectId } = useProject();
  return useQuery({ queryKey: [projectId, 'segments', 'all'], queryFn: ({ signal }) => everySegment(signal) });
}

export function useGroups() {
  const { projectId } = useProject();
  return useQuery({ queryKey: [projectId, 'subscription-groups'], queryFn: ({ signal }) => read(api.GET('/subscription-groups', { signal })) });
}

export function Audience({ plan, set, error }: PartProps) {
  const { projectId } = useProject();
  const segments = useSegments();
  const groups = useGroups();
  const chosen = segments.data?.segments.find((segment) => segment.id === plan.segmentId);
  return (
    <Stack pt="md">
      <TextInput label={t.campaigns.name} required value={plan.name} onChange={(event) => set({ name: event.currentTarget.value })} error={problemOf(error, 'name')} />
      <Loaded query={segments} rows={2}>
        {({ segments: all }) =>
          all.length === 0 ? (
            <Text>
              {t.campaigns.noSegments}{' '}
              <ScreenLink to="/p/$projectId/segments/$segmentId" params={{ projectId, segmentId: 'new' }} underline="always">
                {t.campaigns.makeSegment}
              </ScreenLink>
            </Text>
          ) : (
            <>
              <NativeSelect label={t.campaigns.segment} required value={plan.segmentId} onChange={(event) => set({ segmentId: event.currentTarget.value })} error={problemOf(error, 'segmentId')} data={[{ value: '', label: t.campaigns.choose }, ...all.map(({ id, name }) => ({ value: id, label: name }))]} />
              {chosen && chosen.userCount !== null && <Text size="sm">{t.campaigns.people(t.number(chosen.userCount))}</Text>}
              <Checkbox.Group label={t.campaigns.exclude} value={plan.excludeSegmentIds} onChange={(excludeSegmentIds) => set({ excludeSegmentIds })} error={problemOf(error, 'excludeSegmentIds')}>
                {all.filter(({ id }) => id !== plan.segmentId).map(({ id, name }) => <Checkbox key={id} mt={4} value={id} label={name} />)}
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
        data={[{ value: '', label: t.none }, ...(groups.data?.groups ?? []).map(({ id, name }) => ({ value: id, label: name }))]}
      />
    </Stack>
  );
}
