import { describe, expect, test } from 'vitest';
import { identityOf } from '../src/app/identity';
import {
  type LocatedStep,
  type Target,
  branchesOf,
  canMoveTo,
  everyStep,
  insertStep,
  moveStep,
  locateStep,
  targetOf,
  removeStep,
  updateStep,
} from '../src/features/automations/arrangement';
import type { Step } from '../src/features/automations/step';
import { numbersOf } from '../src/features/automations/step-numbers';

const named = (name: string): Step => ({ type: 'TRACK_EVENT', event: name });
const conditional = (first: Step[], second: Step[], otherwise: Step[]): Step => ({
  type: 'BRANCH',
  branches: [
    { rules: [], steps: first },
    { rules: [], steps: second },
  ],
  else: otherwise,
});
const wait = (then: Step[], otherwise: Step[]): Step => ({
  type: 'WAIT_FOR_EVENT',
  event: 'paid',
  timeout: '1d',
  then,
  else: otherwise,
});

/** Formats steps as names, with branches in brackets. */
function format(steps: readonly Step[]): string {
  return steps
    .map((step) =>
      branchesOf(step).length > 0
        ? `(${branchesOf(step)
            .map((branch) => format(branch.steps))
            .join(' | ')})`
        : String(step.event),
    )
    .join(' ');
}

function at(steps: readonly Step[], path: string): LocatedStep {
  const found = [...everyStep(steps)].find((each) => each.path === path);
  if (!found) throw new Error(`no step at ${path}`);
  return found;
}

const tree = (): Step[] => [
  named('a'),
  conditional([named('b'), named('c')], [named('d')], []),
  named('e'),
  wait([named('f')], [wait([], [named('g')])]),
];

describe('steps', () => {
  test('have the paths that the API uses', () => {
    expect([...everyStep(tree())].map(({ step, path }) => `${String(step.event)} ${path}`)).toEqual([
      'a steps[0]',
      'undefined steps[1]',
      'b steps[1].branches[0].steps[0]',
      'c steps[1].branches[0].steps[1]',
      'd steps[1].branches[1].steps[0]',
      'e steps[2]',
      'paid steps[3]',
      'f steps[3].then[0]',
      'paid steps[3].else[0]',
      'g steps[3].else[0].else[0]',
    ]);
  });

  test('changed step keeps its identity, and others are untouched', () => {
    const steps = tree();
    const names = [...everyStep(steps)].map(({ step }) => identityOf(step));
    const next = updateStep(steps, 'steps[3].else[0].else[0]', (step) => ({ ...step, event: 'h' }));
    expect(format(next)).toBe('a (b c | d | ) e (f | ( | h))');
    expect([...everyStep(next)].map(({ step }) => identityOf(step))).toEqual(names);
    expect(next[1]).toBe(steps[1]);
    expect(format(steps)).toBe('a (b c | d | ) e (f | ( | g))');
  });

  test('steps can be inserted into every list and removed from it', () => {
    for (const { list, index, path } of everyStep(tree())) {
      const steps = tree();
      const next = insertStep(steps, { list, index }, named('new'));
      expect(at(next, path).step.event).toBe('new');
      expect(removeStep(next, path)).toEqual(steps);
    }
    expect(format(insertStep(tree(), { list: 'steps[1].else', index: 0 }, named('new')))).toBe(
      'a (b c | d | new) e (f | ( | g))',
    );
    const bare: Step[] = [{ type: 'WAIT_FOR_EVENT', event: 'paid', then: null }];
    expect(format(insertStep(bare, { list: 'steps[0].then', index: 0 }, named('new')))).toBe('(new | )');
  });
});

describe('moved step', () => {
  const moved = (from: string, list: string, index: number) => {
    const steps = tree();
    const next = moveStep(steps, at(steps, from), { list, index });
    return format(next);
  };

  test('moves before and after others, into branches and out of them', () => {
    expect(moved('steps[0]', 'steps', 3)).toBe('(b c | d | ) e a (f | ( | g))');
    expect(moved('steps[2]', 'steps', 0)).toBe('e a (b c | d | ) (f | ( | g))');
    expect(moved('steps[0]', 'steps[1].branches[1].steps', 1)).toBe('(b c | d a | ) e (f | ( | g))');
    expect(moved('steps[0]', 'steps[3].else[0].then', 0)).toBe('(b c | d | ) e (f | (a | g))');
    expect(moved('steps[1].branches[0].steps[0]', 'steps', 0)).toBe('b a (c | d | ) e (f | ( | g))');
    expect(moved('steps[3].else[0].else[0]', 'steps[1].else', 0)).toBe('a (b c | d | g) e (f | ( | ))');
    expect(moved('steps[1]', 'steps[3].then', 0)).toBe('a e ((b c | d | ) f | ( | g))');
  });

  test('does not move into itself or to its own position', () => {
    for (const [from, list, index] of [
      ['steps[1]', 'steps[1].else', 0],
      ['steps[3]', 'steps[3].else[0].then', 0],
      ['steps[2]', 'steps', 2],
      ['steps[2]', 'steps', 3],
    ] as const) {
      expect(canMoveTo(from, { list, index })).toBe(false);
      expect(moved(from, list, index)).toBe(format(tree()));
    }
    // `steps[1]` is not a prefix of `steps[11]`.
    const many = [...Array.from({ length: 11 }, (_, index) => named(String(index))), wait([], [])];
    expect(canMoveTo('steps[1]', { list: 'steps[11].then', index: 0 })).toBe(true);
    expect(format(moveStep(many, at(many, 'steps[1]'), { list: 'steps[11].then', index: 0 }))).toBe(
      '0 2 3 4 5 6 7 8 9 10 (1 | )',
    );
  });

  test('moving keeps all steps and their identities', () => {
    const steps = tree();
    const all = [...everyStep(steps)];
    const names = all.map(({ step }) => identityOf(step)).sort();
    const targets: Target[] = [
      ...all.map(({ list, index }) => ({ list, index })),
      ...all.map(({ list, count }) => ({ list, index: count })),
    ];
    for (const from of all) {
      for (const target of targets) {
        const next = moveStep(steps, from, target);
        expect([...everyStep(next)].map(({ step }) => identityOf(step)).sort()).toEqual(names);
        const now = locateStep(next, identityOf(from.step));
        if (canMoveTo(from.path, target)) expect(now?.list.split(/\W/).length).toBe(target.list.split(/\W/).length);
        else expect(next).toBe(steps);
      }
    }
  });

  test('moves in each direction, and not beyond the ends', () => {
    const steps = tree();
    const moveBy = (path: string, move: Parameters<typeof targetOf>[2]) => {
      const target = targetOf(steps, at(steps, path), move);
      return target && format(moveStep(steps, at(steps, path), target));
    };
    expect(moveBy('steps[0]', 'up')).toBeNull();
    expect(moveBy('steps[3]', 'down')).toBeNull();
    expect(moveBy('steps[2]', 'up')).toBe('a e (b c | d | ) (f | ( | g))');
    expect(moveBy('steps[0]', 'down')).toBe('(b c | d | ) a e (f | ( | g))');
    expect(moveBy('steps[2]', 'into')).toBe('a (b c e | d | ) (f | ( | g))');
    expect(moveBy('steps[1]', 'into')).toBeNull();
    expect(moveBy('steps[2]', 'out')).toBeNull();
    expect(moveBy('steps[1].branches[0].steps[0]', 'out')).toBe('a (c | d | ) b e (f | ( | g))');
    expect(moveBy('steps[3].else[0].else[0]', 'out')).toBe('a (b c | d | ) e (f | ( | ) g)');
    expect(moveBy('steps[1].branches[0].steps[1]', 'nextBranch')).toBe('a (b | d c | ) e (f | ( | g))');
    expect(moveBy('steps[1].branches[1].steps[0]', 'nextBranch')).toBe('a (b c |  | d) e (f | ( | g))');
    expect(moveBy('steps[1].branches[0].steps[1]', 'previousBranch')).toBeNull();
    expect(moveBy('steps[3].else[0]', 'previousBranch')).toBe('a (b c | d | ) e (( | g) f | )');
  });
});

describe('step counts', () => {
  test('stay with their step when it is moved', () => {
    const steps = tree();
    const countsOf = (step: string, type: string, entered: number) => ({ step, type, entered, waiting: 0, arms: {} });
    const numbers = numbersOf(steps, {
      steps: [
        countsOf('steps[0]', 'TRACK_EVENT', 9),
        countsOf('steps[1].branches[1].steps[0]', 'TRACK_EVENT', 4),
        countsOf('steps[2]', 'EXIT', 1),
      ],
    });
    const moved = moveStep(steps, at(steps, 'steps[0]'), { list: 'steps', index: 3 });
    expect(numbers.get(identityOf(at(moved, 'steps[2]').step))?.entered).toBe(9);
    expect(numbers.get(identityOf(at(moved, 'steps[0].branches[1].steps[0]').step))?.entered).toBe(4);
    // In the reported version, another type of step was at this path.
    expect(numbers.has(identityOf(at(steps, 'steps[2]').step))).toBe(false);
    expect(numbersOf(steps, undefined).size).toBe(0);
  });
});
