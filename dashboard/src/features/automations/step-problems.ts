import { type Problem, problemsWithin } from '../../api/failure';

/** One of the steps in a way. */
const IN_A_WAY = /^\.(?:branches\[\d+\]\.steps|then|else)\[/;
/** A rule of a way: whose editor tells what is wrong with it. */
const RULE_OF_A_WAY = /^\.branches\[\d+\]\.rules\[/;

/** What the API says about a step itself and the ways out of it, and not about the steps in these. */
export function problemsOf(error: unknown, place: string): Problem[] {
  return problemsWithin(error, place).filter(({ field }) => !IN_A_WAY.test(field.slice(place.length)));
}

/** Of these, what stands nowhere else in the step's form. */
export function untoldProblems(error: unknown, place: string): Problem[] {
  return problemsOf(error, place).filter(({ field }) => !RULE_OF_A_WAY.test(field.slice(place.length)));
}
