import { describe, expect, test } from 'vitest';
import { identityOf } from '../src/app/identity';
import {
  type Standing,
  type Target,
  armsOf,
  canGo,
  everyStep,
  inserted,
  relocated,
  standingOf,
  targetOf,
  without,
  withStep,
} from '../src/features/automations/arrangement';
import type { Step } from '../src/features/automations/step';
import { numbersOf } from '../src/features/automations/step-numbers';

const named = (name: string): Step => ({ type: 'TRACK_EVENT', event: name });
const branch = (first: Step[], second: Step[], otherwise: Step[]): Step => ({
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

/** The steps as they stand: names, and in brackets what is in the arms. */
function shown(steps: readonly Step[]): string {
  return steps
    .map((step) =>
      armsOf(step).length > 0
        ? `(${armsOf(step)
            .map((arm) => shown(arm.steps))
            .join(' | ')})`
        : String(step.event),
    )
    .join(' ');
}

function at(steps: readonly Step[], place: string): Standing {
  const found = [...everyStep(steps)].find((each) => each.place === place);
  if (!found) throw new Error(`nothing stands at ${place}`);
  return found;
}

const tree = (): Step[] => [
  named('a'),
  branch([named('b'), named('c')], [named('d')], []),
  named('e'),
  wait([named('f')], [wait([], [named('g')])]),
];

describe('where steps stand', () => {
  test('is what the API calls it', () => {
    expect([...everyStep(tree())].map(({ step, place }) => `${String(step.event)} ${place}`)).toEqual([
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

  test('a changed step is known by what it was, and others are not touched', () => {
    const steps = tree();
    const names = [...everyStep(steps)].map(({ step }) => identityOf(step));
    const next = withStep(steps, 'steps[3].else[0].else[0]', (step) => ({ ...step, event: 'h' }));
    expect(shown(next)).toBe('a (b c | d | ) e (f | ( | h))');
    expect([...everyStep(next)].map(({ step }) => identityOf(step))).toEqual(names);
    expect(next[1]).toBe(steps[1]);
    expect(shown(steps)).toBe('a (b c | d | ) e (f | ( | g))');
  });

  test('steps are put into every list, and taken out of it', () => {
    for (const { list, index, place } of everyStep(tree())) {
      const steps = tree();
      const next = inserted(steps, { list, index }, named('new'));
      expect(at(next, place).step.event).toBe('new');
      expect(without(next, place)).toEqual(steps);
    }
    expect(shown(inserted(tree(), { list: 'steps[1].else', index: 0 }, named('new')))).toBe(
      'a (b c | d | new) e (f | ( | g))',
    );
    const bare: Step[] = [{ type: 'WAIT_FOR_EVENT', event: 'paid', then: null }];
    expect(shown(inserted(bare, { list: 'steps[0].then', index: 0 }, named('new')))).toBe('(new | )');
  });
});

describe('a step that is taken elsewhere', () => {
  const taken = (from: string, list: string, index: number) => {
    const steps = tree();
    const next = relocated(steps, at(steps, from), { list, index });
    return shown(next);
  };

  test('goes before and behind others, into arms and out of them', () => {
    expect(taken('steps[0]', 'steps', 3)).toBe('(b c | d | ) e a (f | ( | g))');
    expect(taken('steps[2]', 'steps', 0)).toBe('e a (b c | d | ) (f | ( | g))');
    expect(taken('steps[0]', 'steps[1].branches[1].steps', 1)).toBe('(b c | d a | ) e (f | ( | g))');
    expect(taken('steps[0]', 'steps[3].else[0].then', 0)).toBe('(b c | d | ) e (f | (a | g))');
    expect(taken('steps[1].branches[0].steps[0]', 'steps', 0)).toBe('b a (c | d | ) e (f | ( | g))');
    expect(taken('steps[3].else[0].else[0]', 'steps[1].else', 0)).toBe('a (b c | d | g) e (f | ( | ))');
    expect(taken('steps[1]', 'steps[3].then', 0)).toBe('a e ((b c | d | ) f | ( | g))');
  });

  test('goes neither into itself nor to where it is', () => {
    for (const [from, list, index] of [
      ['steps[1]', 'steps[1].else', 0],
      ['steps[3]', 'steps[3].else[0].then', 0],
      ['steps[2]', 'steps', 2],
      ['steps[2]', 'steps', 3],
    ] as const) {
      expect(canGo(from, { list, index })).toBe(false);
      expect(taken(from, list, index)).toBe(shown(tree()));
    }
    // Of ten and more, one is not another's beginning.
    const many = [...Array.from({ length: 11 }, (_, index) => named(String(index))), wait([], [])];
    expect(canGo('steps[1]', { list: 'steps[11].then', index: 0 })).toBe(true);
    expect(shown(relocated(many, at(many, 'steps[1]'), { list: 'steps[11].then', index: 0 }))).toBe(
      '0 2 3 4 5 6 7 8 9 10 (1 | )',
    );
  });

  test('nothing is lost or made, wherever it goes, and it is known by the same name', () => {
    const steps = tree();
    const all = [...everyStep(steps)];
    const names = all.map(({ step }) => identityOf(step)).sort();
    const targets: Target[] = [
      ...all.map(({ list, index }) => ({ list, index })),
      ...all.map(({ list, count }) => ({ list, index: count })),
    ];
    for (const from of all) {
      for (const target of targets) {
        const next = relocated(steps, from, target);
        expect([...everyStep(next)].map(({ step }) => identityOf(step)).sort()).toEqual(names);
        const now = standingOf(next, identityOf(from.step));
        if (canGo(from.place, target)) expect(now?.list.split(/\W/).length).toBe(target.list.split(/\W/).length);
        else expect(next).toBe(steps);
      }
    }
  });

  test('moves by a name of the move, and stays where it leads nowhere', () => {
    const steps = tree();
    const goes = (place: string, move: Parameters<typeof targetOf>[2]) => {
      const target = targetOf(steps, at(steps, place), move);
      return target && shown(relocated(steps, at(steps, place), target));
    };
    expect(goes('steps[0]', 'up')).toBeNull();
    expect(goes('steps[3]', 'down')).toBeNull();
    expect(goes('steps[2]', 'up')).toBe('a e (b c | d | ) (f | ( | g))');
    expect(goes('steps[0]', 'down')).toBe('(b c | d | ) a e (f | ( | g))');
    expect(goes('steps[2]', 'into')).toBe('a (b c e | d | ) (f | ( | g))');
    expect(goes('steps[1]', 'into')).toBeNull();
    expect(goes('steps[2]', 'out')).toBeNull();
    expect(goes('steps[1].branches[0].steps[0]', 'out')).toBe('a (c | d | ) b e (f | ( | g))');
    expect(goes('steps[3].else[0].else[0]', 'out')).toBe('a (b c | d | ) e (f | ( | ) g)');
    expect(goes('steps[1].branches[0].steps[1]', 'nextWay')).toBe('a (b | d c | ) e (f | ( | g))');
    expect(goes('steps[1].branches[1].steps[0]', 'nextWay')).toBe('a (b c |  | d) e (f | ( | g))');
    expect(goes('steps[1].branches[0].steps[1]', 'previousWay')).toBeNull();
    expect(goes('steps[3].else[0]', 'previousWay')).toBe('a (b c | d | ) e (( | g) f | )');
  });
});

describe('numbers', () => {
  test('stay with the step that they are of, wherever it is moved', () => {
    const steps = tree();
    const of = (step: string, type: string, entered: number) => ({ step, type, entered, waiting: 0, arms: {} });
    const numbers = numbersOf(steps, {
      steps: [
        of('steps[0]', 'TRACK_EVENT', 9),
        of('steps[1].branches[1].steps[0]', 'TRACK_EVENT', 4),
        of('steps[2]', 'EXIT', 1),
      ],
    });
    const moved = relocated(steps, at(steps, 'steps[0]'), { list: 'steps', index: 3 });
    expect(numbers.get(identityOf(at(moved, 'steps[2]').step))?.entered).toBe(9);
    expect(numbers.get(identityOf(at(moved, 'steps[0].branches[1].steps[0]').step))?.entered).toBe(4);
    // Another version had something else there.
    expect(numbers.has(identityOf(at(steps, 'steps[2]').step))).toBe(false);
    expect(numbersOf(steps, undefined).size).toBe(0);
  });
});
