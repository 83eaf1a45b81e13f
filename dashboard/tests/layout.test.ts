import { expect, test } from 'vitest';
import { identityOf } from '../src/app/identity';
import {
  FARTHEST,
  type Part,
  type Picture,
  fitted,
  pathOf,
  pictureOf,
  spotAt,
} from '../src/features/automations/layout';
import { type Step, freshStep } from '../src/features/automations/step';

const nested = (): Step[] => {
  const inner: Step = { ...freshStep('WAIT_FOR_EVENT'), then: [freshStep('EXIT')], else: [freshStep('WAIT')] };
  const split: Step = {
    type: 'SPLIT',
    branches: [
      { weight: 50, steps: [inner, freshStep('WAIT')] },
      { weight: 50, steps: [] },
      { weight: 1, steps: [freshStep('EXIT')] },
    ],
  };
  return [freshStep('WAIT'), split, freshStep('SEND_EMAIL')];
};

function meet(one: Part, other: Part): boolean {
  return (
    one.x < other.x + other.width &&
    other.x < one.x + one.width &&
    one.y < other.y + other.height &&
    other.y < one.y + one.height
  );
}

function part(picture: Picture, id: string): Part {
  const found = picture.parts.find((each) => each.id === id);
  if (!found) throw new Error(`no ${id}`);
  return found;
}

test('no two parts stand on each other, and all are within the picture', () => {
  const picture = pictureOf(nested());
  for (const [index, one] of picture.parts.entries()) {
    for (const other of picture.parts.slice(index + 1))
      expect(meet(one, other), `${one.id} and ${other.id}`).toBe(false);
    expect(one.x).toBeGreaterThanOrEqual(-picture.width / 2);
    expect(one.x + one.width).toBeLessThanOrEqual(picture.width / 2);
    expect(one.y + one.height).toBeLessThanOrEqual(picture.height);
  }
});

test('lines lead down, from what is there to what is there', () => {
  const picture = pictureOf(nested());
  expect(new Set(picture.lines.map(({ id }) => id)).size).toBe(picture.lines.length);
  for (const { from, to } of picture.lines)
    expect(part(picture, from).y + part(picture, from).height).toBeLessThanOrEqual(part(picture, to).y);
});

test('what is behind an end is not reached, and ways that go on come together', () => {
  const steps = nested();
  const picture = pictureOf(steps);
  const into = (id: string) => picture.lines.filter(({ to }) => to === id).map(({ from }) => from);
  expect(into('spot:steps[2]')).toEqual(['spot:steps[1].branches[0].steps[2]', 'spot:steps[1].branches[1].steps[0]']);
  expect(into('spot:steps[1].branches[2].steps[1]')).toEqual([]);
  expect(into('end')).toEqual(['spot:steps[3]']);
  const ended = pictureOf([freshStep('EXIT')]);
  expect(ended.lines.some(({ to }) => to === 'end')).toBe(false);
});

test('there is a spot before and behind every step, and in every way', () => {
  const spots = pictureOf(nested()).parts.filter(({ kind }) => kind === 'spot');
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
      .map((place) => `spot:${place}`)
      .sort(),
  );
  expect(pictureOf([]).parts.map(({ id }) => id)).toEqual(['trigger', 'spot:steps[0]', 'end']);
});

test('a line goes aside just above where it leads', () => {
  expect(pathOf(0, 0, 0, 16)).toBe('M 0 0 L 0 16');
  expect(pathOf(0, 0, 100, 200)).toBe('M 0 0 V 186 Q 0 192 6 192 H 94 Q 100 192 100 198 V 200');
  expect(pathOf(100, 0, 0, 200)).toBe('M 100 0 V 186 Q 100 192 94 192 H 6 Q 0 192 0 198 V 200');
});

test('a step is let go at the nearest spot that it can go to', () => {
  const steps = nested();
  const picture = pictureOf(steps);
  const spot = part(picture, 'spot:steps[1].branches[1].steps[0]');
  const [x, y] = [spot.x + 30, spot.y - 20];
  expect(spotAt(picture, 'steps[0]', x, y)?.id).toBe(spot.id);
  // Not into itself, and not where nothing is near.
  expect(spotAt(picture, 'steps[1]', x, y)).toBeNull();
  expect(spotAt(picture, 'steps[0]', -1_000, 0)).toBeNull();
  const own = part(picture, identityOf(steps[2] as Step));
  expect(spotAt(picture, 'steps[2]', own.x + own.width / 2, own.y + own.height / 2)).toBeNull();
});

test('a hundred steps, five deep, are all drawn', () => {
  let deep: Step[] = Array.from({ length: 20 }, () => freshStep('WAIT'));
  for (let level = 0; level < 4; level++)
    deep = [{ ...freshStep('WAIT_FOR_EVENT'), then: deep, else: Array.from({ length: 19 }, () => freshStep('WAIT')) }];
  const picture = pictureOf(deep);
  expect(picture.parts.filter(({ kind }) => kind === 'step')).toHaveLength(100);
});

test('a picture is seen whole in its window, and never nearer than it is', () => {
  const picture = pictureOf(nested());
  for (const [width, height] of [
    [900, 640],
    [400, 640],
    [900, 300],
  ] as const) {
    const { x, y, zoom } = fitted(picture, width, height);
    expect(zoom).toBeLessThan(1);
    expect(x - (picture.width / 2) * zoom).toBeGreaterThanOrEqual(0);
    expect(x + (picture.width / 2) * zoom).toBeLessThanOrEqual(width);
    expect(y + picture.height * zoom).toBeLessThanOrEqual(height);
  }
  expect(fitted(pictureOf([freshStep('EXIT')]), 900, 640).zoom).toBe(1);
  // Of what is longer than that the beginning is seen.
  expect(fitted(pictureOf(Array.from({ length: 60 }, () => freshStep('WAIT'))), 900, 640)).toEqual({
    x: 450,
    y: 16,
    zoom: FARTHEST,
  });
});
