import { identityOf } from '../../app/identity';
import { everyStep } from './arrangement';
import type { Step } from './step';

/** Runs that entered a step, wait there, and took each of its branches. */
export interface StepNumbers {
  step: string;
  type: string;
  entered: number;
  waiting: number;
  arms: Record<string, number>;
}

export type Report = { steps: StepNumbers[] };

/** Returns the numbers of the saved steps by step identity, so that they stay with a step that is moved. */
export function numbersOf(saved: readonly Step[], report: Report | undefined): Map<string, StepNumbers> {
  const byPath = new Map(report?.steps.map((each) => [each.step, each]));
  const found = new Map<string, StepNumbers>();
  for (const { step, path } of everyStep(saved)) {
    const numbers = byPath.get(path);
    if (numbers?.type === step.type) found.set(identityOf(step), numbers);
  }
  return found;
}
