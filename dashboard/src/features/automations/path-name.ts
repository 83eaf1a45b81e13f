import { t } from '../../text';

/** Names a branch that a run took: `then`, `else` or `branches[1]`, of a step of a type. */
export function pathName(branch: string, stepType: string | null): string {
  const index = /^branches\[(\d+)\]$/.exec(branch)?.[1];
  if (index !== undefined) return t.steps.path(Number(index) + 1);
  if (stepType === 'WAIT_FOR_EVENT') return branch === 'then' ? t.steps.then : t.steps.else;
  return branch === 'else' ? t.steps.otherwise : branch;
}
