import { COMPARISONS, type Leaf, TOTALS, kindOf, shapeOf } from './rule';

/** Converts a rule on a single segment to a list, because the form selects from a list. */
export function asSegmentList(leaf: Leaf): Leaf {
  if (leaf.field !== 'segment') return leaf;
  if (leaf.operator === 'eq') return { ...leaf, operator: 'in', value: [leaf.value] };
  if (leaf.operator === 'neq') return { ...leaf, operator: 'not_in', value: [leaf.value] };
  return leaf;
}

/** Whether the form can represent a rule completely. Other rules are edited as JSON, so that nothing is lost. */
export function fitsForm(leaf: Leaf): boolean {
  const { operator, value } = leaf;
  if (Object.keys(leaf).some((part) => part !== 'field' && part !== 'operator' && part !== 'value')) return false;
  const kind = kindOf(leaf);
  if (kind === 'segment') {
    const { operator: listOperator, value: ids } = asSegmentList(leaf);
    return (listOperator === 'in' || listOperator === 'not_in') && isListOf(ids, 'string');
  }
  if (kind === 'event' || kind === 'message')
    return shapeOf(operator) === 'behaviour' && behaviourFitsForm(value, kind === 'event');
  switch (shapeOf(operator)) {
    case 'none':
      return value === undefined;
    case 'duration':
    case 'date':
      return typeof value === 'string';
    case 'scalar':
      return isScalar(value);
    case 'range':
      return Array.isArray(value) && value.length === 2 && isUniform(value) && typeof value[0] !== 'boolean';
    case 'list':
      return Array.isArray(value) && isUniform(value) && (typeof value[0] !== 'boolean' || value.length === 1);
    case 'behaviour':
      return false;
  }
}

function isScalar(value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
}

function isListOf(value: unknown, type: string): boolean {
  return Array.isArray(value) && value.every((each) => typeof each === type);
}

function isUniform(values: unknown[]): boolean {
  return values.length === 0 || (isScalar(values[0]) && isListOf(values, typeof values[0]));
}

function behaviourFitsForm(value: unknown, isEvent: boolean): boolean {
  if (value === undefined) return true;
  if (!isRecord(value)) return false;
  const totals = TOTALS.filter((total) => value[total] !== undefined);
  const checks: Record<string, (part: unknown) => boolean> = {
    count: (count) => isRecord(count) && isOneThreshold(count),
    within: (within) => typeof within === 'string',
    ...(isEvent
      ? { where: Array.isArray, ...Object.fromEntries(TOTALS.map((total) => [total, totalFitsForm])) }
      : { status: (status) => typeof status === 'string' }),
  };
  return totals.length <= 1 && Object.entries(value).every(([name, part]) => checks[name]?.(part) ?? false);
}

function totalFitsForm(total: unknown): boolean {
  if (!isRecord(total)) return false;
  const { property, ...thresholds } = total;
  return typeof property === 'string' && isOneThreshold(thresholds);
}

function isOneThreshold(thresholds: Record<string, unknown>): boolean {
  const [first, ...more] = Object.entries(thresholds);
  return (
    first !== undefined &&
    more.length === 0 &&
    COMPARISONS.some((each) => each === first[0]) &&
    typeof first[1] === 'number'
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
