import { t } from '../../text';
import { parentOf, splitPath } from './arrangement';
import { pathName } from './path-name';

/** A step of an automation or of a run. */
export interface NamedStep {
  /** Path of the step, such as `steps[2].else[0]`. */
  step: string | null;
  type: string | null;
  name?: string | null;
}

const STEP_PATH = /^steps\[\d+\](?:\.(?:then|else|branches\[\d+\]\.steps)\[\d+\])*$/;

/**
 * Returns the position of a step in words, such as `step 1 in “Path 2” of step 3`; null if `path` is not the path of a step.
 * Of the known steps, those that contain it give the names of their branches.
 */
export function stepPosition(path: string, known: readonly NamedStep[] = []): string | null {
  if (!STEP_PATH.test(path)) return null;
  const { list, index } = splitPath(path);
  const position = t.steps.position(index + 1);
  const parent = parentOf(list);
  if (!parent) return position;
  const type = known.find(({ step }) => step === parent.path)?.type ?? null;
  const outer = stepPosition(parent.path, known) ?? parent.path;
  return t.steps.positionIn(position, pathName(parent.at.replace('.steps', ''), type), outer);
}

/** Names a step: its type, its own name if it has one, and its position. */
export function stepLabel({ step, type, name }: NamedStep, known: readonly NamedStep[]): string {
  const title = t.steps.title(t.steps.types[type ?? ''] ?? type ?? '', name ?? null);
  if (step === null) return title || '–';
  const position = stepPosition(step, known) ?? step;
  return title ? `${title} (${position})` : position;
}

/** Names the step at which a run waits, by its position. */
export function currentStep(path: string | null): string {
  if (path === null) return '–';
  const position = stepPosition(path);
  return position === null ? path : position.charAt(0).toUpperCase() + position.slice(1);
}
