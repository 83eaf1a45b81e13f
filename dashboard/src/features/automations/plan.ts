import type { Schemas } from '../../api/client';
import type { Rule } from '../rules/rule';
import { type Step, cleaned, parseDuration, formatDuration } from './step';

type Automation = Schemas['Automation'];
export type TriggerType = NonNullable<Schemas['AutomationInput']['triggerType']>;
export const TRIGGERS: readonly TriggerType[] = ['EVENT', 'WEBHOOK', 'SEGMENT_ENTER', 'SEGMENT_EXIT', 'DATE_PROPERTY'];
export const REENTRIES = ['once', 'after_exit', 'always'] as const;

/** An automation in the editor. It holds the fields of all trigger types; only those of the selected type are saved. */
export interface Plan {
  name: string;
  triggerType: TriggerType;
  triggerEvent: string;
  triggerSegmentId: string;
  triggerFilter: Rule[];
  date: { property: string; offset: string; time: string; repeat: 'once' | 'yearly' };
  entryRules: Rule[];
  exitRules: Rule[];
  reentry: (typeof REENTRIES)[number];
  goal: { event: string; within: string; where: Rule[] } | null;
  steps: Step[];
}

export const EMPTY: Plan = {
  name: '',
  triggerType: 'EVENT',
  triggerEvent: '',
  triggerSegmentId: '',
  triggerFilter: [],
  date: { property: '', offset: '', time: '', repeat: 'once' },
  entryRules: [],
  exitRules: [],
  reentry: 'after_exit',
  goal: null,
  steps: [],
};

export function planOf(automation: Automation): Plan {
  const { triggerDate: date, goal } = automation;
  return {
    name: automation.name ?? '',
    triggerType: automation.triggerType ?? 'EVENT',
    triggerEvent: automation.triggerEvent ?? '',
    triggerSegmentId: automation.triggerSegmentId ?? '',
    triggerFilter: (automation.triggerFilter ?? []) as Rule[],
    date: {
      property: date?.property ?? '',
      offset: formatDuration(date?.offset),
      time: date?.time ?? '',
      repeat: date?.repeat ?? 'once',
    },
    entryRules: (automation.entryRules ?? []) as Rule[],
    exitRules: (automation.exitRules ?? []) as Rule[],
    reentry: automation.reentry ?? 'after_exit',
    goal: goal ? { event: goal.event, within: formatDuration(goal.within), where: (goal.where ?? []) as Rule[] } : null,
    steps: (automation.steps ?? []) as unknown as Step[],
  };
}

/** Returns the request body for a plan, with the fields of the selected trigger type only. */
export function inputOf(plan: Plan): Schemas['AutomationInput'] {
  const { name, triggerType, reentry, entryRules, exitRules, goal, date } = plan;
  const byName = triggerType === 'EVENT' || triggerType === 'WEBHOOK';
  const bySegment = triggerType === 'SEGMENT_ENTER' || triggerType === 'SEGMENT_EXIT';
  const input = {
    name,
    triggerType,
    reentry,
    triggerEvent: byName ? plan.triggerEvent : null,
    triggerFilter: byName && plan.triggerFilter.length > 0 ? plan.triggerFilter : null,
    triggerSegmentId: bySegment ? plan.triggerSegmentId : null,
    triggerDate:
      triggerType === 'DATE_PROPERTY'
        ? {
            property: date.property,
            repeat: date.repeat,
            ...(date.offset && { offset: parseDuration(date.offset) }),
            ...(date.time && { time: date.time }),
          }
        : null,
    entryRules: entryRules.length > 0 ? entryRules : null,
    exitRules: exitRules.length > 0 ? exitRules : null,
    goal: goal && {
      event: goal.event,
      ...(goal.within && { within: parseDuration(goal.within) }),
      ...(goal.where.length > 0 && { where: goal.where }),
    },
    steps: plan.steps.map(cleaned),
  };
  return input as Schemas['AutomationInput'];
}
