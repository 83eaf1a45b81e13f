import { identityOf, withEntry } from '../../app/identity';
import type { Step } from './step';

/** A branch of a step, with steps of its own. */
export interface Branch {
  /** Path of its steps within the step: `then`, `else` or `branches[1].steps`. */
  at: string;
  kind: 'numbered' | 'then' | 'else' | 'otherwise';
  /** Counted from 1 for numbered branches; 0 for others. */
  number: number;
  steps: Step[];
}

/** A step and its position. `path` is the API's name of it: `steps[0].branches[1].steps[2]`. */
export interface LocatedStep {
  step: Step;
  path: string;
  list: string;
  index: number;
  /** Number of steps in its list. */
  count: number;
}

/** An insertion point: before the step at `index` of a list. */
export interface Target {
  list: string;
  index: number;
}

export const MOVES = ['up', 'down', 'into', 'out', 'previousBranch', 'nextBranch'] as const;
export type Move = (typeof MOVES)[number];

export function branchesOf(step: Step): Branch[] {
  if (step.type === 'WAIT_FOR_EVENT') {
    return [
      { at: 'then', kind: 'then', number: 0, steps: step.then ?? [] },
      { at: 'else', kind: 'else', number: 0, steps: step.else ?? [] },
    ];
  }
  if (!step.branches) return [];
  const numbered = step.branches.map((branch, index): Branch => ({
    at: `branches[${index}].steps`,
    kind: 'numbered',
    number: index + 1,
    steps: branch.steps,
  }));
  return step.type === 'BRANCH'
    ? [...numbered, { at: 'else', kind: 'otherwise', number: 0, steps: step.else ?? [] }]
    : numbered;
}

/** Yields all steps depth first; the steps of a branch follow the step that it belongs to. */
export function* everyStep(steps: readonly Step[], list = 'steps'): Generator<LocatedStep> {
  for (const [index, step] of steps.entries()) {
    const path = `${list}[${index}]`;
    yield { step, path, list, index, count: steps.length };
    for (const branch of branchesOf(step)) yield* everyStep(branch.steps, `${path}.${branch.at}`);
  }
}

/** Finds the step with an identity. */
export function locateStep(steps: readonly Step[], identity: string): LocatedStep | undefined {
  for (const located of everyStep(steps)) if (identityOf(located.step) === identity) return located;
  return undefined;
}

/** Returns the path of the step that a list is a branch of, and the path within that step; null for the outermost list. */
export function parentOf(list: string): { path: string; at: string } | null {
  const match = /^(.*)\.(then|else|branches\[\d+\]\.steps)$/.exec(list);
  return match ? { path: match[1] ?? '', at: match[2] ?? '' } : null;
}

export function splitPath(path: string): Target {
  const match = /^(.*)\[(\d+)\]$/.exec(path);
  return { list: match?.[1] ?? path, index: Number(match?.[2] ?? 0) };
}

function updateBranch(step: Step, at: string, change: (steps: Step[]) => Step[]): Step {
  if (at === 'then' || at === 'else') return { ...step, [at]: change(step[at] ?? []) };
  const index = Number(/\d+/.exec(at)?.[0]);
  const branch = step.branches?.[index];
  return step.branches && branch
    ? { ...step, branches: withEntry(step.branches, index, { ...branch, steps: change(branch.steps) }) }
    : step;
}

function updateList(steps: Step[], list: string, change: (steps: Step[]) => Step[]): Step[] {
  const parent = parentOf(list);
  return parent ? updateStep(steps, parent.path, (step) => updateBranch(step, parent.at, change)) : change(steps);
}

/** Changes one step, which keeps its identity. */
export function updateStep(steps: Step[], path: string, change: (step: Step) => Step): Step[] {
  const { list, index } = splitPath(path);
  return updateList(steps, list, (found) => (found[index] ? withEntry(found, index, change(found[index])) : found));
}

export function insertStep(steps: Step[], { list, index }: Target, step: Step): Step[] {
  return updateList(steps, list, (found) => found.toSpliced(index, 0, step));
}

export function removeStep(steps: Step[], path: string): Step[] {
  const { list, index } = splitPath(path);
  return updateList(steps, list, (found) => found.toSpliced(index, 1));
}

/** Whether a step can be moved there: not into itself, and not to its current position. */
export function canMoveTo(path: string, target: Target): boolean {
  const { list, index } = splitPath(path);
  if (target.list.startsWith(`${path}.`)) return false;
  return target.list !== list || (target.index !== index && target.index !== index + 1);
}

/** Moves a step; returns the steps unchanged if it cannot be moved there. */
export function moveStep(steps: Step[], from: LocatedStep, target: Target): Step[] {
  if (!canMoveTo(from.path, target)) return steps;
  return removeStep(insertStep(steps, target, from.step), pathAfterInsert(from.path, target));
}

/** Returns the path of a step after another step was inserted at a target. */
function pathAfterInsert(path: string, { list, index }: Target): string {
  if (!path.startsWith(`${list}[`)) return path;
  const match = /^\[(\d+)\](.*)$/.exec(path.slice(list.length));
  const at = Number(match?.[1]);
  return at < index ? path : `${list}[${at + 1}]${match?.[2] ?? ''}`;
}

/** Returns the target of a move; null if the step cannot move that way. */
export function targetOf(steps: readonly Step[], { list, index, count }: LocatedStep, move: Move): Target | null {
  const parent = parentOf(list);
  switch (move) {
    case 'up':
      return index > 0 ? { list, index: index - 1 } : null;
    case 'down':
      return index < count - 1 ? { list, index: index + 2 } : null;
    case 'into': {
      const before = findStep(steps, `${list}[${index - 1}]`);
      const [branch] = before ? branchesOf(before) : [];
      return branch ? { list: `${list}[${index - 1}].${branch.at}`, index: branch.steps.length } : null;
    }
    case 'out': {
      if (!parent) return null;
      const at = splitPath(parent.path);
      return { list: at.list, index: at.index + 1 };
    }
    default: {
      const step = parent && findStep(steps, parent.path);
      if (!step) return null;
      const branches = branchesOf(step);
      const branch = branches[branches.findIndex(({ at }) => at === parent.at) + (move === 'nextBranch' ? 1 : -1)];
      return branch ? { list: `${parent.path}.${branch.at}`, index: Math.min(index, branch.steps.length) } : null;
    }
  }
}

function findStep(steps: readonly Step[], path: string): Step | undefined {
  for (const located of everyStep(steps)) if (located.path === path) return located.step;
  return undefined;
}
