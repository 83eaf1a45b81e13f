import { isReadable } from '../../app/typed-json';

/** A step in the editor. The API validates it. */
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

const DEFAULTS: Record<(typeof STEP_TYPES)[number], Omit<Step, 'type'>> = {
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

/** Returns a new step of a type, with default values. */
export function newStep(type: (typeof STEP_TYPES)[number]): Step {
  return { type, ...structuredClone(DEFAULTS[type]) };
}

/** Moves an entry of a list by one position; returns the list unchanged at its ends. */
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

/** Formats seconds with a unit: `3d`, `90m`. Values that fit no unit stay in seconds. */
export function formatDuration(value: unknown): string {
  if (typeof value !== 'number' || value === 0) return value === undefined || value === null ? '' : String(value);
  const unit = UNITS.find(([, seconds]) => value % seconds === 0);
  return unit ? `${value / unit[1]}${unit[0]}` : String(value);
}

/** Converts typed text to the API's form: a number of seconds, or a text with a unit. */
export function parseDuration(text: string): string | number {
  return /^-?\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : text.trim();
}

/** Counts steps, including those in branches. */
export function countSteps(steps: readonly Step[] | null | undefined): number {
  return (steps ?? []).reduce((sum, step) => {
    const inBranches = (step.branches ?? []).reduce((inner, branch) => inner + countSteps(branch.steps), 0);
    return sum + 1 + inBranches + countSteps(step.then) + countSteps(step.else);
  }, 0);
}

/** Whether a step itself can be sent, regardless of the steps in its branches. */
export function isStepReadable(step: Step): boolean {
  return isReadable({
    ...step,
    then: null,
    else: null,
    branches: step.branches?.map((branch) => ({ ...branch, steps: [] })),
  });
}

/** Removes empty optional fields, so that untouched fields are not sent. */
export function cleaned(step: Step): Step {
  const branches = step.branches?.map((branch) => ({ ...branch, steps: branch.steps.map(cleaned) }));
  const kept = Object.entries(step).filter(
    ([name, value]) => value !== undefined && !(OPTIONAL.has(name) && (value === '' || value === null)),
  );
  return {
    ...(Object.fromEntries(kept) as Step),
    ...(branches && { branches }),
    ...(step.then && { then: step.then.map(cleaned) }),
    ...(step.else && { else: step.else.map(cleaned) }),
  };
}

const OPTIONAL = new Set(['name', 'time', 'property', 'offset', 'subscriptionGroupId', 'where']);
