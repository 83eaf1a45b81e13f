import type { ComponentType } from 'react';
import { Group, NativeSelect, NumberInput, Stack, Text, TextInput } from '@mantine/core';
import { CHANNELS, MESSAGE_STATUSES } from '../../app/values';
import { t } from '../../text';
import { type Behaviour, COMPARISONS, type Leaf, type Rule, TOTALS, kindOf, trimmed } from './rule';

type Comparison = (typeof COMPARISONS)[number];
type Total = (typeof TOTALS)[number];

/** Props of an editor for rules on the properties of an event. */
export interface ConditionsProps {
  rules: Rule[];
  onChange: (rules: Rule[]) => void;
  error: unknown;
  path: string;
}

interface Props {
  leaf: Leaf & { value?: Behaviour };
  onChange: (leaf: Leaf) => void;
  error: unknown;
  path: string;
  /** Editor for the rules that filter events. */
  Conditions: ComponentType<ConditionsProps>;
}

/** Editor for a rule on events or messages: which ones, how often and within what period. */
export function BehaviourEditor({ leaf, onChange, error, path, Conditions }: Props) {
  const isEvent = kindOf(leaf) === 'event';
  const value = leaf.value ?? {};
  const set = (change: Behaviour) => onChange({ ...leaf, value: trimmed({ ...value, ...change }) });
  const subject = leaf.field.slice(leaf.field.indexOf(':') + 1);
  return (
    <Stack gap="xs">
      <Group align="flex-end" gap="xs">
        <NativeSelect
          size="xs"
          label={t.rules.operator}
          value={leaf.operator}
          onChange={(event) =>
            onChange({ ...leaf, operator: event.currentTarget.value === 'did_not' ? 'did_not' : 'did' })
          }
          data={[
            { value: 'did', label: isEvent ? t.rules.did : t.rules.messageDid },
            { value: 'did_not', label: isEvent ? t.rules.didNot : t.rules.messageDidNot },
          ]}
        />
        {isEvent ? (
          <TextInput
            size="xs"
            label={t.rules.event}
            value={subject}
            onChange={(event) => onChange({ ...leaf, field: `event:${event.currentTarget.value}` })}
          />
        ) : (
          <>
            <NativeSelect
              size="xs"
              label={t.messages.channel}
              value={subject}
              onChange={(event) => onChange({ ...leaf, field: `message:${event.currentTarget.value}` })}
              data={CHANNELS.map((channel) => ({ value: channel, label: t.channelName(channel) }))}
            />
            <NativeSelect
              size="xs"
              label={t.messages.status}
              value={value.status ?? ''}
              onChange={(event) => set({ status: event.currentTarget.value || undefined })}
              data={[
                { value: '', label: t.rules.sent },
                ...MESSAGE_STATUSES.map((each) => ({ value: each, label: t.statuses[each] ?? each })),
              ]}
            />
          </>
        )}
        <Count value={value.count} onChange={(count) => set({ count })} />
        <TextInput
          size="xs"
          w={110}
          label={t.rules.within}
          placeholder={t.rules.ever}
          value={value.within ?? ''}
          onChange={(event) => set({ within: event.currentTarget.value })}
        />
        {isEvent && <TotalEditor value={value} onChange={set} />}
      </Group>
      {isEvent && (
        <details open={Boolean(value.where?.length)}>
          <summary>
            <Text size="sm" span>
              {t.rules.where}
            </Text>
          </summary>
          <Conditions
            rules={value.where ?? []}
            onChange={(where) => set({ where: where as Leaf[] })}
            error={error}
            path={`${path}.value.where`}
          />
        </details>
      )}
    </Stack>
  );
}

function Count({ value, onChange }: { value: Behaviour['count']; onChange: (count: Behaviour['count']) => void }) {
  const comparison = COMPARISONS.find((each) => value?.[each] !== undefined);
  const choose = (chosen: Comparison | undefined) =>
    onChange(chosen ? { [chosen]: comparison ? (value?.[comparison] ?? 1) : 1 } : undefined);
  return (
    <>
      <NativeSelect
        size="xs"
        label={t.rules.count}
        value={comparison ?? ''}
        onChange={(event) => choose(COMPARISONS.find((each) => each === event.currentTarget.value))}
        data={[
          { value: '', label: t.rules.once },
          ...COMPARISONS.map((each) => ({ value: each, label: t.rules.operators[each] ?? each })),
        ]}
      />
      {comparison && (
        <NumberInput
          size="xs"
          w={80}
          label={t.rules.times}
          min={0}
          allowDecimal={false}
          value={value?.[comparison]}
          onChange={(next) => onChange({ [comparison]: Number(next) })}
        />
      )}
    </>
  );
}

function TotalEditor({ value, onChange }: { value: Behaviour; onChange: (change: Behaviour) => void }) {
  const total = TOTALS.find((each) => value[each] !== undefined);
  const current = (total ? value[total] : undefined) as
    ({ property?: string } & Partial<Record<Comparison, number>>) | undefined;
  const comparison = COMPARISONS.find((each) => current?.[each] !== undefined) ?? 'gte';
  const none = Object.fromEntries(TOTALS.map((each) => [each, undefined]));
  const set = (which: Total, property: string, how: Comparison, amount: number) =>
    onChange({ ...none, [which]: { property, [how]: amount } });
  const amount = current?.[comparison] ?? 0;
  return (
    <>
      <NativeSelect
        size="xs"
        label={t.rules.total}
        value={total ?? ''}
        onChange={(event) => {
          const chosen = TOTALS.find((each) => each === event.currentTarget.value);
          if (chosen) set(chosen, current?.property ?? '', comparison, amount);
          else onChange(none);
        }}
        data={[{ value: '', label: t.none }, ...TOTALS.map((each) => ({ value: each, label: t.rules.totals[each] }))]}
      />
      {total && (
        <>
          <TextInput
            size="xs"
            w={120}
            label={t.rules.totalOf}
            value={current?.property ?? ''}
            onChange={(event) => set(total, event.currentTarget.value, comparison, amount)}
          />
          <NativeSelect
            size="xs"
            label={t.rules.operator}
            value={comparison}
            onChange={(event) =>
              set(
                total,
                current?.property ?? '',
                COMPARISONS.find((each) => each === event.currentTarget.value) ?? 'gte',
                amount,
              )
            }
            data={COMPARISONS.map((each) => ({ value: each, label: t.rules.operators[each] ?? each }))}
          />
          <NumberInput
            size="xs"
            w={100}
            label={t.rules.value}
            value={amount}
            onChange={(next) => set(total, current?.property ?? '', comparison, Number(next))}
          />
        </>
      )}
    </>
  );
}
