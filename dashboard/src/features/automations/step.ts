import { isReadable } from '../../app/typed-json';

/** A step as it is edited: the API checks it as a whole. */
export interface Step {
  type: string;
  steps?: never;
  branches?: Array<{ rules?: unknown[]; weight?: number; steps: Step[] }>;
  then?: Step[] | null;
  else?: Step[] | null;
  [field: string]: unknown;
}

export const STEP_TYPES = [
  'SEND_EMAIL',
  'SEND_PUSH',
  'SEND_IN_APP',
  'SEND_SMS',
  'WAIT',
  'WAIT_UNTIL',
  'WAIT_FOR_EVENT',
  'BRANCH',
  'SPLIT',
  'UPDATE_USER',
  'TRACK_EVENT',
  'WEBHOOK',
  'START_AUTOMATION',
  'EXIT',
] as const;

const FRESH: Record<(typeof STEP_TYPES)[number], Omit<Step, 'type'>> = {
  SEND_EMAIL: { templateId: '' },
  SEND_PUSH: { templateId: '' },
  SEND_IN_APP: { templateId: '' },
  SEND_SMS: { templateId: '' },
  WAIT: { delay: '1d' },
  WAIT_UNTIL: { time: '09:00' },
  WAIT_FOR_EVENT: { event: '', timeout: '3d', then: [], else: [] },
  BRANCH: { branches: [{ rules: [], steps: [] }], else: [] },
  SPLIT: {
    branches: [
      { weight: 50, steps: [] },
      { weight: 50, steps: [] },
    ],
  },
  UPDATE_USER: { properties: {} },
  TRACK_EVENT: { event: '' },
  WEBHOOK: { name: '', url: '' },
  START_AUTOMATION: { automationId: '' },
  EXIT: {},
};

/** A step of a type, to be filled in. */
export function freshStep(type: (typeof STEP_TYPES)[number]): Step {
  return { type, ...structuredClone(FRESH[type]) };
}

/** A list with one of its steps moved by a place; as it was where there is none to move to. */
export function moved<T>(list: readonly T[], index: number, by: -1 | 1): T[] {
  const target = index + by;
  const next = [...list];
  const [a, b] = [list[index], list[target]];
  if (a === undefined || b === undefined) return next;
  [next[index], next[target]] = [b, a];
  return next;
}

const UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
] as const;

/** A time in seconds as people write it: `3d`, `90m`; what fits no unit stays in seconds. */
export function shownDuration(value: unknown): string {
  if (typeof value !== 'number' || value === 0) return value === undefined || value === null ? '' : String(value);
  const unit = UNITS.find(([, seconds]) => value % seconds === 0);
  return unit ? `${value / unit[1]}${unit[0]}` : String(value);
}

/** What somebody wrote, as the API takes it. */
export function readDuration(text: string): string | number {
  return /^-?\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : text.trim();
}

/** Steps, with those in their arms. */
export function countSteps(steps: readonly Step[] | null | undefined): number {
  return (steps ?? []).reduce((sum, step) => {
    const arms = (step.branches ?? []).reduce((inner, arm) => inner + countSteps(arm.steps), 0);
    return sum + 1 + arms + countSteps(step.then) + countSteps(step.else);
  }, 0);
}

/** Whether all of a step itself can be sent, whatever the steps in its arms. */
export function isStepReadable(step: Step): boolean {
  return isReadable({
    ...step,
    then: null,
    else: null,
    branches: step.branches?.map((arm) => ({ ...arm, steps: [] })),
  });
}

/** Without what is empty and may be left out, so that an untouched field says nothing. */
export function cleaned(step: Step): Step {
  const arms = step.branches?.map((arm) => ({ ...arm, steps: arm.steps.map(cleaned) }));
  const kept = Object.entries(step).filter(
    ([name, value]) => value !== undefined && !(OPTIONAL.has(name) && (value === '' || value === null)),
  );
  return {
    ...(Object.fromEntries(kept) as Step),
    ...(arms && { branches: arms }),
    ...(step.then && { then: step.then.map(cleaned) }),
    ...(step.else && { else: step.else.map(cleaned) }),
  };
}

const OPTIONAL = new Set(['name', 'time', 'property', 'offset', 'subscriptionGroupId', 'where']);
