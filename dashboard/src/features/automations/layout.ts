import { identityOf } from '../../app/identity';
import { type Branch, type LocatedStep, type Target, branchesOf, canMoveTo } from './arrangement';
import type { Step } from './step';

/** Upper left corner and size of a part of the diagram, in pixels. */
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
    | { kind: 'step'; located: LocatedStep }
    /** Label of a branch, above its steps. */
    | { kind: 'branch'; step: Step; branch: Branch }
    /** Insertion point between steps. */
    | { kind: 'spot'; target: Target }
  );
export type Spot = Extract<Part, { kind: 'spot' }>;

export interface Line {
  id: string;
  from: string;
  to: string;
}

export interface Layout {
  parts: Part[];
  lines: Line[];
  width: number;
  height: number;
}

const STEP = { width: 232, height: 92 };
const BRANCH = { width: 168, height: 30 };
const SPOT = 26;
const VERTICAL_GAP = 16;
const BRANCH_GAP = 28;
/** Corner radius of a line. */
const CORNER_RADIUS = 6;
/** Minimum zoom, at which shapes can still be distinguished. */
export const MIN_ZOOM = 0.2;
/** Distance between the diagram and the edge of the canvas, in pixels. */
const PADDING = 16;
/** Maximum distance between a spot and the point where a step is dropped, in pixels. */
const MAX_DROP_DISTANCE = 130;

function widthOf(steps: readonly Step[]): number {
  return Math.max(STEP.width, ...steps.map((step) => widthOfBranches(branchesOf(step))));
}

function widthOfBranches(branches: readonly Branch[]): number {
  return branches.reduce((sum, { steps }) => sum + widthOf(steps), 0) + BRANCH_GAP * Math.max(0, branches.length - 1);
}

/**
 * Lays out the steps from top to bottom and the branches of a step side by side, centred on x = 0. Unreachable steps, after an
 * exit, have no incoming line.
 */
export function layoutOf(steps: Step[]): Layout {
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

  /** Lays out a list; returns its bottom and the parts from which a line leads on. */
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
      y += SPOT + VERTICAL_GAP;
      const step = drawn[index];
      if (!step) return { bottom: y, ends: isReached ? [spot] : [] };
      const path = `${list}[${index}]`;
      const id = identityOf(step);
      parts.push({
        kind: 'step',
        located: { step, path, list, index, count: drawn.length },
        ...box(id, STEP, centre, y),
      });
      link([spot], id);
      y += STEP.height + VERTICAL_GAP;
      const branches = branchesOf(step);
      ends = step.type === 'EXIT' ? [] : [id];
      if (branches.length === 0) continue;
      ends = [];
      let [left, bottom] = [centre - widthOfBranches(branches) / 2, y];
      for (const branch of branches) {
        const width = widthOf(branch.steps);
        const [middle, first] = [left + width / 2, y + 2 * VERTICAL_GAP + BRANCH.height];
        const label = `branch:${path}.${branch.at}`;
        parts.push({ kind: 'branch', step, branch, ...box(label, BRANCH, middle, y + VERTICAL_GAP) });
        link([id], label);
        const inner = draw(`${path}.${branch.at}`, branch.steps, middle, first, [label]);
        ends.push(...inner.ends);
        bottom = Math.max(bottom, inner.bottom);
        left += width + BRANCH_GAP;
      }
      y = bottom + VERTICAL_GAP;
    }
  }

  parts.push({ kind: 'trigger', ...box('trigger', { width: STEP.width, height: 52 }, 0, 0) });
  const { bottom, ends } = draw('steps', steps, 0, 52 + VERTICAL_GAP, ['trigger']);
  parts.push({ kind: 'end', ...box('end', { width: 120, height: 32 }, 0, bottom) });
  link(ends, 'end');
  return { parts, lines, width: widthOf(steps), height: bottom + 32 };
}

/** Returns the viewport that shows the whole diagram in a canvas of this size, with a zoom of at most 1. */
export function fitViewport(layout: Layout, width: number, height: number): { x: number; y: number; zoom: number } {
  const zoom = Math.min((width - 2 * PADDING) / layout.width, (height - 2 * PADDING) / layout.height);
  return { x: width / 2, y: PADDING, zoom: Math.min(1, Math.max(MIN_ZOOM, zoom)) };
}

/** Returns a line as an SVG path. It turns sideways only just above its target, so that it crosses no other part. */
export function linePath(fromX: number, fromY: number, toX: number, toY: number): string {
  if (Math.abs(toX - fromX) < 2 * CORNER_RADIUS) return `M ${fromX} ${fromY} L ${toX} ${toY}`;
  const [y, dx] = [toY - VERTICAL_GAP / 2, toX > fromX ? CORNER_RADIUS : -CORNER_RADIUS];
  return `M ${fromX} ${fromY} V ${y - CORNER_RADIUS} Q ${fromX} ${y} ${fromX + dx} ${y} H ${toX - dx} Q ${toX} ${y} ${toX} ${y + CORNER_RADIUS} V ${toY}`;
}

/** Returns the nearest spot to which a step dropped at a point can move; null if none is near enough. */
export function spotAt({ parts }: Layout, path: string, x: number, y: number): Spot | null {
  let [nearest, minimum]: [Spot | null, number] = [null, MAX_DROP_DISTANCE];
  for (const part of parts) {
    if (part.kind !== 'spot' || !canMoveTo(path, part.target)) continue;
    const distance = Math.hypot(part.x + part.width / 2 - x, part.y + part.height / 2 - y);
    if (distance < minimum) [nearest, minimum] = [part, distance];
  }
  return nearest;
}
