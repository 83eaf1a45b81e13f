import { Button, Checkbox, Fieldset, Group, NativeSelect, NumberInput, Stack, Text, TextInput } from '@mantine/core';
import type { ComponentProps } from 'react';
import { problemOf } from '../../api/failure';
import { useProject } from '../../app/project';
import { CHANNELS } from '../../app/values';
import { Loaded } from '../../components/failure';
import { ScreenLink } from '../../components/links';
import { PagedSelect } from '../../components/paged-select';
import { t } from '../../text';
import { useTemplateChoices } from '../templates/template-choices';
import { type Plan, type Variant, splitEvenly } from './plan';
import type { PartProps } from './wizard-audience';

export function Content({ plan, set, error }: Omit<PartProps, 'zone'>) {
  const { projectId } = useProject();
  const { pages, rows, options } = useTemplateChoices(plan.channel, [
    plan.templateId,
    ...plan.variants.map(({ templateId }) => templateId),
  ]);
  const change = (value: string) =>
    set({ channel: CHANNELS.find((each) => each === value) ?? 'EMAIL', templateId: '', variants: [], winner: null });
  return (
    <Stack pt="md">
      <NativeSelect
        label={t.campaigns.channel}
        value={plan.channel}
        onChange={(event) => change(event.currentTarget.value)}
        data={CHANNELS.map((channel) => ({ value: channel, label: t.channelName(channel) }))}
      />
      <Loaded query={pages} rows={2}>
        {() => {
          if (rows.length === 0) {
            return (
              <Text>
                {t.campaigns.noTemplates}{' '}
                <ScreenLink
                  to="/p/$projectId/templates/$templateId"
                  params={{ projectId, templateId: 'new' }}
                  underline="always"
                >
                  {t.campaigns.createTemplate}
                </ScreenLink>
              </Text>
            );
          }
          const data = [{ value: '', label: t.campaigns.choose }, ...options];
          const hasVariants = plan.variants.length > 0;
          const newVariant = (number: number): Variant => ({
            name: String.fromCharCode(64 + number),
            templateId: rows[number - 1]?.id ?? '',
            weight: 50,
          });
          return (
            <>
              {!hasVariants && (
                <PagedSelect
                  label={t.campaigns.template}
                  pages={pages}
                  required
                  value={plan.templateId}
                  onChange={(event) => set({ templateId: event.currentTarget.value })}
                  error={problemOf(error, 'templateId')}
                  data={data}
                />
              )}
              <Checkbox
                label={t.campaigns.variants}
                checked={hasVariants}
                onChange={(event) =>
                  set({
                    variants: event.currentTarget.checked
                      ? splitEvenly([
                          { ...newVariant(1), templateId: plan.templateId || newVariant(1).templateId },
                          newVariant(2),
                        ])
                      : [],
                    winner: null,
                  })
                }
              />
              {hasVariants && (
                <Variants
                  plan={plan}
                  set={set}
                  error={error}
                  pages={pages}
                  data={data}
                  onAdd={() => set({ variants: splitEvenly([...plan.variants, newVariant(plan.variants.length + 1)]) })}
                />
              )}
            </>
          );
        }}
      </Loaded>
      <Goal plan={plan} set={set} error={error} />
    </Stack>
  );
}

interface VariantsProps extends Omit<PartProps, 'zone'> {
  data: Array<{ value: string; label: string }>;
  pages: ComponentProps<typeof PagedSelect>['pages'];
  onAdd: () => void;
}

function Variants({ plan, set, error, data, pages, onAdd }: VariantsProps) {
  const replace = (index: number, change: Partial<Variant>) =>
    set({ variants: plan.variants.map((each, at) => (at === index ? { ...each, ...change } : each)) });
  return (
    <>
      {plan.variants.map((variant, index) => (
        <Fieldset key={index} legend={t.campaigns.variant(index + 1)}>
          <Group align="flex-end">
            <TextInput
              label={t.campaigns.name}
              value={variant.name}
              onChange={(event) => replace(index, { name: event.currentTarget.value })}
              error={problemOf(error, `variants[${index}].name`)}
            />
            <PagedSelect
              label={t.campaigns.template}
              pages={pages}
              value={variant.templateId}
              onChange={(event) => replace(index, { templateId: event.currentTarget.value })}
              error={problemOf(error, `variants[${index}].templateId`)}
              data={data}
            />
            <NumberInput
              label={t.campaigns.weight}
              w={100}
              value={variant.weight}
              onChange={(weight) => replace(index, { weight: Number(weight) })}
              error={problemOf(error, `variants[${index}].weight`)}
            />
            {plan.variants.length > 2 && (
              <Button
                variant="default"
                onClick={() => set({ variants: splitEvenly(plan.variants.filter((_, at) => at !== index)) })}
              >
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
      <Checkbox
        label={t.campaigns.winner}
        checked={winner !== null}
        onChange={(event) =>
          set({ winner: event.currentTarget.checked ? { metric: 'opened', testShare: 20, afterMinutes: 240 } : null })
        }
      />
      {winner && (
        <Group align="flex-end">
          <NativeSelect
            label={t.campaigns.metric}
            value={winner.metric}
            onChange={(event) =>
              set({
                winner: {
                  ...winner,
                  metric:
                    (['opened', 'clicked', 'converted'] as const).find((each) => each === event.currentTarget.value) ??
                    'opened',
                },
              })
            }
            data={Object.entries(t.campaigns.metrics).map(([value, label]) => ({ value, label }))}
            error={problemOf(error, 'winner.metric')}
          />
          <NumberInput
            label={t.campaigns.testShare}
            value={winner.testShare}
            onChange={(testShare) => set({ winner: { ...winner, testShare: Number(testShare) } })}
            error={problemOf(error, 'winner.testShare')}
          />
          <NumberInput
            label={t.campaigns.afterMinutes}
            value={winner.afterMinutes}
            onChange={(afterMinutes) => set({ winner: { ...winner, afterMinutes: Number(afterMinutes) } })}
            error={problemOf(error, 'winner.afterMinutes')}
          />
        </Group>
      )}
    </>
  );
}

function Goal({ plan, set, error }: { plan: Plan; set: PartProps['set']; error: unknown }) {
  const { goal } = plan;
  return (
    <>
      <Checkbox
        label={t.campaigns.goal}
        checked={goal !== null}
        onChange={(event) => set({ goal: event.currentTarget.checked ? { event: '', within: '7d' } : null })}
      />
      {goal && (
        <Group align="flex-end">
          <TextInput
            label={t.campaigns.goalEvent}
            value={goal.event}
            onChange={(event) => set({ goal: { ...goal, event: event.currentTarget.value } })}
            error={problemOf(error, 'goal.event')}
          />
          <TextInput
            label={t.campaigns.goalWithin}
            value={goal.within}
            onChange={(event) => set({ goal: { ...goal, within: event.currentTarget.value } })}
            error={problemOf(error, 'goal.within')}
          />
        </Group>
      )}
    </>
  );
}
