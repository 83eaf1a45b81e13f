import { identityOf } from '../../app/identity';
import { type Arm, type Standing, type Target, armsOf, canGo } from './arrangement';
import type { Step } from './step';

/** A part of the picture: its upper left corner and size, in pixels. */
interface Box {
  id: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

export type Part = Box &
  (
    | { kind: 'trigger' | 'end' }
    | { kind: 'step'; standing: Standing }
    /** The name of a way, above its steps. */
    | { kind: 'arm'; step: Step; arm: Arm }
    /** Between steps: where one can be put. */
    | { kind: 'spot'; target: Target }
  );
export type Spot = Extract<Part, { kind: 'spot' }>;

export interface Line {
  id: string;
  from: string;
  to: string;
}

export interface Picture {
  parts: Part[];
  lines: Line[];
  width: number;
  height: number;
}

const STEP = { width: 232, height: 92 };
const ARM = { width: 168, height: 30 };
const SPOT = 26;
const DOWN = 16;
const ASIDE = 28;
/** The radius of a line's corners. */
const BEND = 6;
/** The least zoom, at which shapes can still be told from each other. */
export const FARTHEST = 0.2;
/** Between the picture and the edge of its window, in pixels. */
const EDGE = 16;
/** How near to a spot something must be let go, in pixels. */
const REACH = 130;

function widthOf(steps: readonly Step[]): number {
  return Math.max(STEP.width, ...steps.map((step) => widthOfArms(armsOf(step))));
}

function widthOfArms(arms: readonly Arm[]): number {
  return arms.reduce((sum, arm) => sum + widthOf(arm.steps), 0) + ASIDE * Math.max(0, arms.length - 1);
}

/**
 * Steps drawn from the top down, the ways of a step side by side, around an axis where x is 0. What nobody comes to, behind an end,
 * has no line that leads there.
 */
export function pictureOf(steps: Step[]): Picture {
  const parts: Part[] = [];
  const lines: Line[] = [];

  const box = (id: string, size: { width: number; height: number }, centre: number, y: number): Box => ({
    id,
    x: centre - size.width / 2,
    y,
    ...size,
  });
  const link = (from: readonly string[], to: string) =>
    lines.push(...from.map((each) => ({ id: `${each}>${to}`, from: each, to })));

  /** Draws a list; returns how far down it goes, and what leads on from it. */
  function draw(
    list: string,
    drawn: readonly Step[],
    centre: number,
    top: number,
    from: string[],
  ): { bottom: number; ends: string[] } {
    let [y, ends] = [top, from];
    for (let index = 0; ; index++) {
      const spot = `spot:${list}[${index}]`;
      const isReached = ends.length > 0;
      parts.push({ kind: 'spot', target: { list, index }, ...box(spot, { width: SPOT, height: SPOT }, centre, y) });
      link(ends, spot);
      y += SPOT + DOWN;
      const step = drawn[index];
      if (!step) return { bottom: y, ends: isReached ? [spot] : [] };
      const place = `${list}[${index}]`;
      const id = identityOf(step);
      parts.push({
        kind: 'step',
        standing: { step, place, list, index, count: drawn.length },
        ...box(id, STEP, centre, y),
      });
      link([spot], id);
      y += STEP.height + DOWN;
      const arms = armsOf(step);
      ends = step.type === 'EXIT' ? [] : [id];
      if (arms.length === 0) continue;
      ends = [];
      let [left, bottom] = [centre - widthOfArms(arms) / 2, y];
      for (const arm of arms) {
        const wide = widthOf(arm.steps);
        const name = `arm:${place}.${arm.at}`;
        parts.push({ kind: 'arm', step, arm, ...box(name, ARM, left + wide / 2, y + DOWN) });
        link([id], name);
        const led = draw(`${place}.${arm.at}`, arm.steps, left + wide / 2, y + 2 * DOWN + ARM.height, [name]);
        ends.push(...led.ends);
        bottom = Math.max(bottom, led.bottom);
        left += wide + ASIDE;
      }
      y = bottom + DOWN;
    }
  }

  parts.push({ kind: 'trigger', ...box('trigger', { width: STEP.width, height: 52 }, 0, 0) });
  const { bottom, ends } = draw('steps', steps, 0, 52 + DOWN, ['trigger']);
  parts.push({ kind: 'end', ...box('end', { width: 120, height: 32 }, 0, bottom) });
  link(ends, 'end');
  return { parts, lines, width: widthOf(steps), height: bottom + 32 };
}

/** Where the picture stands in a window of that size to be seen whole, as near as it can be and never nearer than it is. */
export function fitted(picture: Picture, width: number, height: number): { x: number; y: number; zoom: number } {
  const whole = Math.min((width - 2 * EDGE) / picture.width, (height - 2 * EDGE) / picture.height);
  return { x: width / 2, y: EDGE, zoom: Math.min(1, Math.max(FARTHEST, whole)) };
}

/** A line as SVG draws it: down its own column, and aside only above where it leads, so that it runs through no other part. */
export function pathOf(fromX: number, fromY: number, toX: number, toY: number): string {
  if (Math.abs(toX - fromX) < 2 * BEND) return `M ${fromX} ${fromY} L ${toX} ${toY}`;
  const [turn, aside] = [toY - DOWN / 2, toX > fromX ? BEND : -BEND];
  return `M ${fromX} ${fromY} V ${turn - BEND} Q ${fromX} ${turn} ${fromX + aside} ${turn} H ${toX - aside} Q ${toX} ${turn} ${toX} ${turn + BEND} V ${toY}`;
}

/** Where a step goes that is let go with its middle at a point: the nearest spot that it can go to, if one is near. */
export function spotAt({ parts }: Picture, place: string, x: number, y: number): Spot | null {
  let [nearest, least]: [Spot | null, number] = [null, REACH];
  for (const part of parts) {
    if (part.kind !== 'spot' || !canGo(place, part.target)) continue;
    const far = Math.hypot(part.x + part.width / 2 - x, part.y + part.height / 2 - y);
    if (far < least) [nearest, least] = [part, far];
  }
  return nearest;
}
