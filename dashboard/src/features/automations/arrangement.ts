import { identityOf, withEntry } from '../../app/identity';
import type { Step } from './step';

/** One of the ways that a step leads on by. */
export interface Arm {
  /** Where its steps are in the step: `then`, `else` or `branches[1].steps`. */
  at: string;
  kind: 'way' | 'then' | 'else' | 'otherwise';
  /** Counted from 1 among the ways; 0 of the others. */
  number: number;
  steps: Step[];
}

/** A step where it stands. Its `place` is what the API calls it: `steps[0].branches[1].steps[2]`. */
export interface Standing {
  step: Step;
  place: string;
  list: string;
  index: number;
  /** How many steps are in its list. */
  count: number;
}

/** Between which steps something goes: before the one at `index` of a list. */
export interface Target {
  list: string;
  index: number;
}

export const MOVES = ['up', 'down', 'into', 'out', 'previousWay', 'nextWay'] as const;
export type Move = (typeof MOVES)[number];

export function armsOf(step: Step): Arm[] {
  if (step.type === 'WAIT_FOR_EVENT') {
    return [
      { at: 'then', kind: 'then', number: 0, steps: step.then ?? [] },
      { at: 'else', kind: 'else', number: 0, steps: step.else ?? [] },
    ];
  }
  if (!step.branches) return [];
  const ways = step.branches.map((arm, index): Arm => ({
    at: `branches[${index}].steps`,
    kind: 'way',
    number: index + 1,
    steps: arm.steps,
  }));
  return step.type === 'BRANCH'
    ? [...ways, { at: 'else', kind: 'otherwise', number: 0, steps: step.else ?? [] }]
    : ways;
}

/** Every step, those in arms behind the step that leads there. */
export function* everyStep(steps: readonly Step[], list = 'steps'): Generator<Standing> {
  for (const [index, step] of steps.entries()) {
    const place = `${list}[${index}]`;
    yield { step, place, list, index, count: steps.length };
    for (const arm of armsOf(step)) yield* everyStep(arm.steps, `${place}.${arm.at}`);
  }
}

/** Where the step stands that is known by a name. */
export function standingOf(steps: readonly Step[], identity: string): Standing | undefined {
  for (const standing of everyStep(steps)) if (identityOf(standing.step) === identity) return standing;
  return undefined;
}

/** The step that a list is an arm of, and which; none of the outermost. */
export function ownerOf(list: string): { place: string; at: string } | null {
  const match = /^(.*)\.(then|else|branches\[\d+\]\.steps)$/.exec(list);
  return match ? { place: match[1] ?? '', at: match[2] ?? '' } : null;
}

function split(place: string): Target {
  const match = /^(.*)\[(\d+)\]$/.exec(place);
  return { list: match?.[1] ?? place, index: Number(match?.[2] ?? 0) };
}

function withArm(step: Step, at: string, change: (steps: Step[]) => Step[]): Step {
  if (at === 'then' || at === 'else') return { ...step, [at]: change(step[at] ?? []) };
  const index = Number(/\d+/.exec(at)?.[0]);
  const arm = step.branches?.[index];
  return step.branches && arm
    ? { ...step, branches: withEntry(step.branches, index, { ...arm, steps: change(arm.steps) }) }
    : step;
}

function withList(steps: Step[], list: string, change: (steps: Step[]) => Step[]): Step[] {
  const owner = ownerOf(list);
  return owner ? withStep(steps, owner.place, (step) => withArm(step, owner.at, change)) : change(steps);
}

/** The steps with one of them changed, which goes on being known by the same name. */
export function withStep(steps: Step[], place: string, change: (step: Step) => Step): Step[] {
  const { list, index } = split(place);
  return withList(steps, list, (found) => (found[index] ? withEntry(found, index, change(found[index])) : found));
}

export function inserted(steps: Step[], { list, index }: Target, step: Step): Step[] {
  return withList(steps, list, (found) => found.toSpliced(index, 0, step));
}

export function without(steps: Step[], place: string): Step[] {
  const { list, index } = split(place);
  return withList(steps, list, (found) => found.toSpliced(index, 1));
}

/** Whether a step can be taken there: not into itself, and not to where it is. */
export function canGo(place: string, target: Target): boolean {
  const { list, index } = split(place);
  if (target.list.startsWith(`${place}.`)) return false;
  return target.list !== list || (target.index !== index && target.index !== index + 1);
}

/** The steps with one of them taken elsewhere; as they were where it cannot go there. */
export function relocated(steps: Step[], from: Standing, target: Target): Step[] {
  if (!canGo(from.place, target)) return steps;
  return without(inserted(steps, target, from.step), behind(from.place, target));
}

/** What a place is called once a step more stands at a target. */
function behind(place: string, { list, index }: Target): string {
  if (!place.startsWith(`${list}[`)) return place;
  const match = /^\[(\d+)\](.*)$/.exec(place.slice(list.length));
  const at = Number(match?.[1]);
  return at < index ? place : `${list}[${at + 1}]${match?.[2] ?? ''}`;
}

/** Where a move takes a step; none where it leads nowhere. */
export function targetOf(steps: readonly Step[], { list, index, count }: Standing, move: Move): Target | null {
  const owner = ownerOf(list);
  switch (move) {
    case 'up':
      return index > 0 ? { list, index: index - 1 } : null;
    case 'down':
      return index < count - 1 ? { list, index: index + 2 } : null;
    case 'into': {
      const before = find(steps, `${list}[${index - 1}]`);
      const [arm] = before ? armsOf(before) : [];
      return arm ? { list: `${list}[${index - 1}].${arm.at}`, index: arm.steps.length } : null;
    }
    case 'out': {
      if (!owner) return null;
      const at = split(owner.place);
      return { list: at.list, index: at.index + 1 };
    }
    default: {
      const step = owner && find(steps, owner.place);
      if (!step) return null;
      const arms = armsOf(step);
      const arm = arms[arms.findIndex(({ at }) => at === owner.at) + (move === 'nextWay' ? 1 : -1)];
      return arm ? { list: `${owner.place}.${arm.at}`, index: Math.min(index, arm.steps.length) } : null;
    }
  }
}

function find(steps: readonly Step[], place: string): Step | undefined {
  for (const standing of everyStep(steps)) if (standing.place === place) return standing.step;
  return undefined;
}
