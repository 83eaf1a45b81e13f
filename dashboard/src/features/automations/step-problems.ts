import { type Problem, problemsWithin } from '../../api/failure';

/** Matches fields of the steps in a branch. */
const IN_BRANCH = /^\.(?:branches\[\d+\]\.steps|then|else)\[/;
/** Matches fields of the rules of a branch; the rule editor shows their problems. */
const IN_BRANCH_RULES = /^\.branches\[\d+\]\.rules\[/;

/** Returns the problems of a step and of its branches, without those of the steps in the branches. */
export function problemsOf(error: unknown, path: string): Problem[] {
  return problemsWithin(error, path).filter(({ field }) => !IN_BRANCH.test(field.slice(path.length)));
}

/** Returns the problems of a step that its rule editors do not show. */
export function problemsNotInRules(error: unknown, path: string): Problem[] {
  return problemsOf(error, path).filter(({ field }) => !IN_BRANCH_RULES.test(field.slice(path.length)));
}
