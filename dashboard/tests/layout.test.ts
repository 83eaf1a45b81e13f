import { expect, test } from 'vitest';
import { identityOf } from '../src/app/identity';
import {
  MIN_ZOOM,
  type Part,
  type Layout,
  fitViewport,
  linePath,
  layoutOf,
  spotAt,
} from '../src/features/automations/layout';
import { type Step, newStep } from '../src/features/automations/step';

const nested = (): Step[] => {
  const inner: Step = { ...newStep('WAIT_FOR_EVENT'), then: [newStep('EXIT')], else: [newStep('WAIT')] };
  const split: Step = {
    type: 'SPLIT',
    branches: [
      { weight: 50, steps: [inner, newStep('WAIT')] },
      { weight: 50, steps: [] },
      { weight: 1, steps: [newStep('EXIT')] },
    ],
  };
  return [newStep('WAIT'), split, newStep('SEND_EMAIL')];
};

function overlaps(one: Part, other: Part): boolean {
  return (
    one.x < other.x + other.width &&
    other.x < one.x + one.width &&
    one.y < other.y + other.height &&
    other.y < one.y + one.height
  );
}

function part(layout: Layout, id: string): Part {
  const found = layout.parts.find((each) => each.id === id);
  if (!found) throw new Error(`no ${id}`);
  return found;
}

test('parts do not overlap, and all are within the layout', () => {
  const layout = layoutOf(nested());
  for (const [index, one] of layout.parts.entries()) {
    for (const other of layout.parts.slice(index + 1))
      expect(overlaps(one, other), `${one.id} and ${other.id}`).toBe(false);
    expect(one.x).toBeGreaterThanOrEqual(-layout.width / 2);
    expect(one.x + one.width).toBeLessThanOrEqual(layout.width / 2);
    expect(one.y + one.height).toBeLessThanOrEqual(layout.height);
  }
});

test('lines lead downwards between existing parts', () => {
  const layout = layoutOf(nested());
  expect(new Set(layout.lines.map(({ id }) => id)).size).toBe(layout.lines.length);
  for (const { from, to } of layout.lines)
    expect(part(layout, from).y + part(layout, from).height).toBeLessThanOrEqual(part(layout, to).y);
});

test('steps after an exit are unreachable, and other branches join', () => {
  const steps = nested();
  const layout = layoutOf(steps);
  const into = (id: string) => layout.lines.filter(({ to }) => to === id).map(({ from }) => from);
  expect(into('spot:steps[2]')).toEqual(['spot:steps[1].branches[0].steps[2]', 'spot:steps[1].branches[1].steps[0]']);
  expect(into('spot:steps[1].branches[2].steps[1]')).toEqual([]);
  expect(into('end')).toEqual(['spot:steps[3]']);
  const withExit = layoutOf([newStep('EXIT')]);
  expect(withExit.lines.some(({ to }) => to === 'end')).toBe(false);
});

test('there is a spot before and after every step, and in every branch', () => {
  const spots = layoutOf(nested()).parts.filter(({ kind }) => kind === 'spot');
  expect(spots.map(({ id }) => id).sort()).toEqual(
    [
      'steps[0]',
      'steps[1]',
      'steps[2]',
      'steps[3]',
      'steps[1].branches[0].steps[0]',
      'steps[1].branches[0].steps[1]',
      'steps[1].branches[0].steps[2]',
      'steps[1].branches[1].steps[0]',
      'steps[1].branches[2].steps[0]',
      'steps[1].branches[2].steps[1]',
      'steps[1].branches[0].steps[0].then[0]',
      'steps[1].branches[0].steps[0].then[1]',
      'steps[1].branches[0].steps[0].else[0]',
      'steps[1].branches[0].steps[0].else[1]',
    ]
      .map((path) => `spot:${path}`)
      .sort(),
  );
  expect(layoutOf([]).parts.map(({ id }) => id)).toEqual(['trigger', 'spot:steps[0]', 'end']);
});

test('line turns sideways just above its target', () => {
  expect(linePath(0, 0, 0, 16)).toBe('M 0 0 L 0 16');
  expect(linePath(0, 0, 100, 200)).toBe('M 0 0 V 186 Q 0 192 6 192 H 94 Q 100 192 100 198 V 200');
  expect(linePath(100, 0, 0, 200)).toBe('M 100 0 V 186 Q 100 192 94 192 H 6 Q 0 192 0 198 V 200');
});

test('step is dropped at the nearest spot that it can move to', () => {
  const steps = nested();
  const layout = layoutOf(steps);
  const spot = part(layout, 'spot:steps[1].branches[1].steps[0]');
  const [x, y] = [spot.x + 30, spot.y - 20];
  expect(spotAt(layout, 'steps[0]', x, y)?.id).toBe(spot.id);
  // Not into itself, and not if no spot is near.
  expect(spotAt(layout, 'steps[1]', x, y)).toBeNull();
  expect(spotAt(layout, 'steps[0]', -1_000, 0)).toBeNull();
  const own = part(layout, identityOf(steps[2] as Step));
  expect(spotAt(layout, 'steps[2]', own.x + own.width / 2, own.y + own.height / 2)).toBeNull();
});

test('layout contains all of a hundred steps in five levels', () => {
  let deep: Step[] = Array.from({ length: 20 }, () => newStep('WAIT'));
  for (let level = 0; level < 4; level++)
    deep = [{ ...newStep('WAIT_FOR_EVENT'), then: deep, else: Array.from({ length: 19 }, () => newStep('WAIT')) }];
  const layout = layoutOf(deep);
  expect(layout.parts.filter(({ kind }) => kind === 'step')).toHaveLength(100);
});

test('layout fits into the viewport with a zoom of at most 1', () => {
  const layout = layoutOf(nested());
  for (const [width, height] of [
    [900, 640],
    [400, 640],
    [900, 300],
  ] as const) {
    const { x, y, zoom } = fitViewport(layout, width, height);
    expect(zoom).toBeLessThan(1);
    expect(x - (layout.width / 2) * zoom).toBeGreaterThanOrEqual(0);
    expect(x + (layout.width / 2) * zoom).toBeLessThanOrEqual(width);
    expect(y + layout.height * zoom).toBeLessThanOrEqual(height);
  }
  expect(fitViewport(layoutOf([newStep('EXIT')]), 900, 640).zoom).toBe(1);
  // The minimum zoom shows the beginning of a longer layout.
  expect(fitViewport(layoutOf(Array.from({ length: 60 }, () => newStep('WAIT'))), 900, 640)).toEqual({
    x: 450,
    y: 16,
    zoom: MIN_ZOOM,
  });
});
