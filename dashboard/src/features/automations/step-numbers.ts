import { identityOf } from '../../app/identity';
import { everyStep } from './arrangement';
import type { Step } from './step';

/** How many came to a step, wait there now, and took which of its ways. */
export interface StepNumbers {
  step: string;
  type: string;
  entered: number;
  waiting: number;
  arms: Record<string, number>;
}

export type Report = { steps: StepNumbers[] };

/** The numbers of the steps as they were saved, by what these are known by: they stay with a step that is moved. */
export function numbersOf(saved: readonly Step[], report: Report | undefined): Map<string, StepNumbers> {
  const byPlace = new Map(report?.steps.map((each) => [each.step, each]));
  const found = new Map<string, StepNumbers>();
  for (const { step, place } of everyStep(saved)) {
    const numbers = byPlace.get(place);
    if (numbers?.type === step.type) found.set(identityOf(step), numbers);
  }
  return found;
}
