import { t } from '../../text';

/** Names a branch that a run took: `then`, `else` or `branches[1]`, of a step whose type may be unknown. */
export function pathName(branch: string, stepType: string | null): string {
  const index = /^branches\[(\d+)\]$/.exec(branch)?.[1];
  if (index !== undefined) return t.steps.path(Number(index) + 1);
  if (branch === 'then') return t.steps.then;
  if (branch !== 'else') return branch;
  if (stepType === null) return t.steps.elseOfAny;
  return stepType === 'WAIT_FOR_EVENT' ? t.steps.else : t.steps.otherwise;
}
