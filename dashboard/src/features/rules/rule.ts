import type { Schemas } from '../../api/client';

export type Operator = Extract<Schemas['Rule'], { field: string }>['operator'];

export interface Leaf {
  field: string;
  operator: Operator;
  value?: unknown;
}

export type Rule = Leaf | { any: Rule[] } | { all: Rule[] } | { not: Rule };

export type Kind = 'property' | 'event' | 'message' | 'segment' | 'any' | 'all' | 'not';

/** The form of a rule's value. */
export type Shape = 'none' | 'scalar' | 'list' | 'range' | 'duration' | 'date' | 'behaviour';

const SHAPES: Record<Operator, Shape> = {
  eq: 'scalar',
  neq: 'scalar',
  gt: 'scalar',
  gte: 'scalar',
  lt: 'scalar',
  lte: 'scalar',
  between: 'range',
  in: 'list',
  not_in: 'list',
  contains: 'scalar',
  not_contains: 'scalar',
  starts_with: 'scalar',
  ends_with: 'scalar',
  exists: 'none',
  not_exists: 'none',
  array_contains: 'scalar',
  array_contains_any: 'list',
  before: 'date',
  after: 'date',
  within_last: 'duration',
  not_within_last: 'duration',
  did: 'behaviour',
  did_not: 'behaviour',
};

const BEHAVIOUR: Operator[] = ['did', 'did_not'];

export const OPERATORS = Object.keys(SHAPES) as Operator[];

export const PROPERTY_OPERATORS = OPERATORS.filter((operator) => !BEHAVIOUR.includes(operator));

export function shapeOf(operator: Operator): Shape {
  return SHAPES[operator];
}

export function kindOf(rule: Rule): Kind {
  if ('any' in rule) return 'any';
  if ('all' in rule) return 'all';
  if ('not' in rule) return 'not';
  if (rule.field.startsWith('event:')) return 'event';
  if (rule.field.startsWith('message:')) return 'message';
  return rule.field === 'segment' ? 'segment' : 'property';
}

export function operatorsOf(kind: Kind): Operator[] {
  if (kind === 'event' || kind === 'message') return BEHAVIOUR;
  return kind === 'segment' ? ['in', 'not_in'] : PROPERTY_OPERATORS;
}

/** Returns a new rule of a kind, with default values. */
export function newRule(kind: Kind): Rule {
  switch (kind) {
    case 'any':
      return { any: [newRule('property')] };
    case 'all':
      return { all: [newRule('property')] };
    case 'not':
      return { not: newRule('property') };
    case 'event':
      return { field: 'event:', operator: 'did', value: {} };
    case 'message':
      return { field: 'message:EMAIL', operator: 'did', value: { status: 'opened' } };
    case 'segment':
      return { field: 'segment', operator: 'in', value: [] };
    case 'property':
      return { field: 'properties.', operator: 'eq', value: '' };
  }
}

const EMPTY: Record<Shape, unknown> = {
  none: undefined,
  scalar: '',
  list: [],
  range: ['', ''],
  duration: '30d',
  date: '',
  behaviour: {},
};

/** Changes the operator of a rule; the value is kept if it fits. */
export function withOperator(leaf: Leaf, operator: Operator): Leaf {
  const [before, after] = [shapeOf(leaf.operator), shapeOf(operator)];
  if (after === 'none') return { field: leaf.field, operator };
  if (before === after) return { ...leaf, operator };
  if (before === 'scalar' && after === 'list')
    return { ...leaf, operator, value: leaf.value === '' ? [] : [leaf.value] };
  if (before === 'list' && after === 'scalar') return { ...leaf, operator, value: (leaf.value as unknown[])[0] ?? '' };
  return { ...leaf, operator, value: EMPTY[after] };
}

export type ValueType = 'text' | 'number' | 'boolean';

export function typeOf(value: unknown): ValueType {
  const one = Array.isArray(value) ? value[0] : value;
  return typeof one === 'number' ? 'number' : typeof one === 'boolean' ? 'boolean' : 'text';
}

/** Converts typed text to a value of a type. Text that is not a number stays text; the API reports the error. */
export function parsed(text: string, type: ValueType): unknown {
  if (type === 'boolean') return text === 'true';
  if (type === 'number' && text.trim() !== '' && Number.isFinite(Number(text))) return Number(text);
  return text;
}

export interface Behaviour {
  count?: Partial<Record<'gte' | 'gt' | 'lte' | 'lt' | 'eq', number>>;
  within?: string;
  where?: Leaf[];
  status?: string;
  [total: string]: unknown;
}

export const COMPARISONS = ['gte', 'gt', 'lte', 'lt', 'eq'] as const;
export const TOTALS = ['sum', 'avg', 'min', 'max'] as const;

/** Removes empty parts. */
export function trimmed(behaviour: Behaviour): Behaviour {
  return Object.fromEntries(
    Object.entries(behaviour).filter(
      ([, value]) => value !== undefined && value !== '' && !(Array.isArray(value) && value.length === 0),
    ),
  );
}
