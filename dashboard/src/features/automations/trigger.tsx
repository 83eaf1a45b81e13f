import { Checkbox, Group, NativeSelect, Stack, Text, TextInput } from '@mantine/core';
import { problemOf } from '../../api/failure';
import { Failure } from '../../components/failure';
import { t } from '../../text';
import type { Rule } from '../rules/rule';
import { RuleList } from '../rules/rule-list';
import { choices, useSegments } from '../segments/all-segments';
import { type Plan, REENTRIES, TRIGGERS } from './plan';

interface Props {
  plan: Plan;
  set: (change: Partial<Plan>) => void;
  error: unknown;
}

/** Trigger, entry and exit conditions, re-entry and conversion goal of an automation. */
export function Trigger({ plan, set, error }: Props) {
  const { triggerType } = plan;
  const byName = triggerType === 'EVENT' || triggerType === 'WEBHOOK';
  const rules = (title: string, hint: string, field: 'triggerFilter' | 'entryRules' | 'exitRules') => (
    <details open={plan[field].length > 0}>
      <summary>
        <Text span size="sm">
          {title}:
        </Text>{' '}
        <Text span size="sm" c="dimmed">
          {hint}
        </Text>
      </summary>
      <RuleList
        rules={plan[field]}
        onChange={(changed: Rule[]) => set({ [field]: changed })}
        error={error}
        path={field}
        {...(field === 'triggerFilter' && { kinds: ['property'] })}
      />
    </details>
  );
  return (
    <Stack gap="sm">
      <Group align="flex-end">
        <NativeSelect
          label={t.automations.trigger}
          value={triggerType}
          onChange={(event) =>
            set({ triggerType: TRIGGERS.find((each) => each === event.currentTarget.value) ?? 'EVENT' })
          }
          data={TRIGGERS.map((each) => ({ value: each, label: t.automations.triggers[each] }))}
          error={problemOf(error, 'triggerType')}
        />
        {byName ? (
          <TextInput
            label={triggerType === 'EVENT' ? t.automations.event : t.automations.webhook}
            required
            value={plan.triggerEvent}
            onChange={(event) => set({ triggerEvent: event.currentTarget.value })}
            error={problemOf(error, 'triggerEvent')}
          />
        ) : triggerType === 'DATE_PROPERTY' ? (
          <DateFields plan={plan} set={set} error={error} />
        ) : (
          <SegmentField plan={plan} set={set} error={error} />
        )}
      </Group>
      {byName && rules(t.automations.filter, t.automations.filterHint, 'triggerFilter')}
      {rules(t.automations.entry, t.automations.entryHint, 'entryRules')}
      {rules(t.automations.exit, t.automations.exitHint, 'exitRules')}
      <NativeSelect
        label={t.automations.reentry}
        description={t.automations.reentryHint}
        value={plan.reentry}
        onChange={(event) =>
          set({ reentry: REENTRIES.find((each) => each === event.currentTarget.value) ?? 'after_exit' })
        }
        data={REENTRIES.map((each) => ({ value: each, label: t.automations.reentries[each] }))}
        error={problemOf(error, 'reentry')}
      />
      <Goal plan={plan} set={set} error={error} />
    </Stack>
  );
}

function SegmentField({ plan, set, error }: Props) {
  const segments = useSegments();
  return (
    <>
      <NativeSelect
        label={t.automations.segment}
        required
        value={plan.triggerSegmentId}
        onChange={(event) => set({ triggerSegmentId: event.currentTarget.value })}
        error={problemOf(error, 'triggerSegmentId')}
        data={[{ value: '', label: t.steps.choose }, ...choices(segments.data?.segments, [plan.triggerSegmentId])]}
      />
      <Failure error={segments.error} onRetry={() => void segments.refetch()} />
    </>
  );
}

function DateFields({ plan: { date }, set, error }: Props) {
  const change = (part: Partial<Plan['date']>) => set({ date: { ...date, ...part } });
  return (
    <>
      <TextInput
        label={t.automations.dateProperty}
        required
        value={date.property}
        onChange={(event) => change({ property: event.currentTarget.value })}
        error={problemOf(error, 'triggerDate.property')}
      />
      <TextInput
        label={t.automations.dateOffset}
        value={date.offset}
        onChange={(event) => change({ offset: event.currentTarget.value })}
        error={problemOf(error, 'triggerDate.offset')}
      />
      <TextInput
        label={t.automations.dateTime}
        value={date.time}
        onChange={(event) => change({ time: event.currentTarget.value })}
        error={problemOf(error, 'triggerDate.time')}
      />
      <NativeSelect
        label={t.automations.dateRepeat}
        value={date.repeat}
        onChange={(event) => change({ repeat: event.currentTarget.value === 'yearly' ? 'yearly' : 'once' })}
        data={[
          { value: 'once', label: t.automations.once },
          { value: 'yearly', label: t.automations.yearly },
        ]}
      />
    </>
  );
}

function Goal({ plan: { goal }, set, error }: Props) {
  const change = (part: Partial<NonNullable<Plan['goal']>>) => goal && set({ goal: { ...goal, ...part } });
  return (
    <Stack gap="xs">
      <Group align="flex-end">
        <Checkbox
          mb={8}
          label={t.automations.goal}
          checked={goal !== null}
          onChange={(event) =>
            set({ goal: event.currentTarget.checked ? { event: '', within: '30d', where: [] } : null })
          }
        />
        {goal && (
          <>
            <TextInput
              label={t.automations.event}
              value={goal.event}
              onChange={(event) => change({ event: event.currentTarget.value })}
              error={problemOf(error, 'goal.event')}
            />
            <TextInput
              label={t.automations.goalWithin}
              value={goal.within}
              onChange={(event) => change({ within: event.currentTarget.value })}
              error={problemOf(error, 'goal.within')}
            />
          </>
        )}
      </Group>
      {goal && (
        <details open={goal.where.length > 0}>
          <summary>
            <Text span size="sm">
              {t.automations.goalWhere}
            </Text>
          </summary>
          <RuleList
            rules={goal.where}
            onChange={(where) => change({ where })}
            error={error}
            path="goal.where"
            kinds={['property']}
          />
        </details>
      )}
    </Stack>
  );
}
