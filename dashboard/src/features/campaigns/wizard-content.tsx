import { Button, Checkbox, Fieldset, Group, NativeSelect, NumberInput, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { useProject } from '../../app/project';
import { CHANNELS, type Channel } from '../../app/values';
import { Loaded } from '../../components/failure';
import { ScreenLink } from '../../components/links';
import { t } from '../../text';
import { choices } from '../segments/all-segments';
import { type Plan, type Variant, evenly } from './plan';
import type { PartProps } from './wizard-audience';

export function useTemplates(channel: Channel) {
  const { projectId } = useProject();
  return useQuery({ queryKey: [projectId, 'templates', channel], queryFn: ({ signal }) => read(api.GET('/templates', { params: { query: { channel } }, signal })) });
}

export function Content({ plan, set, error }: Omit<PartProps, 'zone'>) {
  const { projectId } = useProject();
  const templates = useTemplates(plan.channel);
  const change = (value: string) => set({ channel: CHANNELS.find((each) => each === value) ?? 'EMAIL', templateId: '', variants: [], winner: null });
  return (
    <Stack pt="md">
      <NativeSelect label={t.campaigns.channel} value={plan.channel} onChange={(event) => change(event.currentTarget.value)} data={CHANNELS.map((channel) => ({ value: channel, label: t.channelName(channel) }))} />
      <Loaded query={templates} rows={2}>
        {({ templates: all }) => {
          if (all.length === 0) {
            return (
              <Text>
                {t.campaigns.noTemplates}{' '}
                <ScreenLink to="/p/$projectId/templates/$templateId" params={{ projectId, templateId: 'new' }} underline="always">
                  {t.campaigns.makeTemplate}
                </ScreenLink>
              </Text>
            );
          }
          const options = [{ value: '', label: t.campaigns.choose }, ...choices(all, [plan.templateId, ...plan.variants.map(({ templateId }) => templateId)])];
          const tried = plan.variants.length > 0;
          const fresh = (number: number): Variant => ({ name: String.fromCharCode(64 + number), templateId: all[number - 1]?.id ?? '', weight: 50 });
          return (
            <>
              {!tried && <NativeSelect label={t.campaigns.template} required value={plan.templateId} onChange={(event) => set({ templateId: event.currentTarget.value })} error={problemOf(error, 'templateId')} data={options} />}
              <Checkbox label={t.campaigns.variants} checked={tried} onChange={(event) => set({ variants: event.currentTarget.checked ? evenly([{ ...fresh(1), templateId: plan.templateId || fresh(1).templateId }, fresh(2)]) : [], winner: null })} />
              {tried && <Variants plan={plan} set={set} error={error} options={options} onAdd={() => set({ variants: evenly([...plan.variants, fresh(plan.variants.length + 1)]) })} />}
            </>
          );
        }}
      </Loaded>
      <Goal plan={plan} set={set} error={error} />
    </Stack>
  );
}

interface VariantsProps extends Omit<PartProps, 'zone'> {
  options: Array<{ value: string; label: string }>;
  onAdd: () => void;
}

function Variants({ plan, set, error, options, onAdd }: VariantsProps) {
  const replace = (index: number, change: Partial<Variant>) => set({ variants: plan.variants.map((each, at) => (at === index ? { ...each, ...change } : each)) });
  return (
    <>
      {plan.variants.map((variant, index) => (
        <Fieldset key={index} legend={t.campaigns.variant(index + 1)}>
          <Group align="flex-end">
            <TextInput label={t.campaigns.name} value={variant.name} onChange={(event) => replace(index, { name: event.currentTarget.value })} error={problemOf(error, `variants[${index}].name`)} />
            <NativeSelect label={t.campaigns.template} value={variant.templateId} onChange={(event) => replace(index, { templateId: event.currentTarget.value })} error={problemOf(error, `variants[${index}].templateId`)} data={options} />
            <NumberInput label={t.campaigns.weight} w={100} value={variant.weight} onChange={(weight) => replace(index, { weight: Number(weight) })} error={problemOf(error, `variants[${index}].weight`)} />
            {plan.variants.length > 2 && (
              <Button variant="default" onClick={() => set({ variants: evenly(plan.variants.filter((_, at) => at !== index)) })}>
                {t.campaigns.removeVariant}
              </Button>
            )}
          </Group>
        </Fieldset>
      ))}
      <Group>
        <Button size="xs" variant="default" onClick={onAdd}>
          {t.campaigns.addVariant}
        </Button>
      </Group>
      <Winner plan={plan} set={set} error={error} />
    </>
  );
}

function Winner({ plan: { winner }, set, error }: Omit<PartProps, 'zone'>) {
  return (
    <>
      <Checkbox label={t.campaigns.winner} checked={winner !== null} onChange={(event) => set({ winner: event.currentTarget.checked ? { metric: 'opened', testShare: 20, afterMinutes: 240 } : null })} />
      {winner && (
        <Group align="flex-end">
          <NativeSelect
            label={t.campaigns.metric}
            value={winner.metric}
            onChange={(event) => set({ winner: { ...winner, metric: (['opened', 'clicked', 'converted'] as const).find((each) => each === event.currentTarget.value) ?? 'opened' } })}
            data={Object.entries(t.campaigns.metrics).map(([value, label]) => ({ value, label }))}
            error={problemOf(error, 'winner.metric')}
          />
          <NumberInput label={t.campaigns.testShare} value={winner.testShare} onChange={(testShare) => set({ winner: { ...winner, testShare: Number(testShare) } })} error={problemOf(error, 'winner.testShare')} />
          <NumberInput label={t.campaigns.afterMinutes} value={winner.afterMinutes} onChange={(afterMinutes) => set({ winner: { ...winner, afterMinutes: Number(afterMinutes) } })} error={problemOf(error, 'winner.afterMinutes')} />
        </Group>
      )}
    </>
  );
}

function Goal({ plan, set, error }: { plan: Plan; set: PartProps['set']; error: unknown }) {
  const { goal } = plan;
  return (
    <>
      <Checkbox label={t.campaigns.goal} checked={goal !== null} onChange={(event) => set({ goal: event.currentTarget.checked ? { event: '', within: '7d' } : null })} />
      {goal && (
        <Group align="flex-end">
          <TextInput label={t.campaigns.goalEvent} value={goal.event} onChange={(event) => set({ goal: { ...goal, event: event.currentTarget.value } })} error={problemOf(error, 'goal.event')} />
          <TextInput label={t.campaigns.goalWithin} value={goal.within} onChange={(event) => set({ goal: { ...goal, within: event.currentTarget.value } })} error={problemOf(error, 'goal.within')} />
        </Group>
      )}
    </>
  );
}
