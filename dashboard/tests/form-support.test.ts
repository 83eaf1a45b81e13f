import { expect, test } from 'vitest';
import { type Kind, type Leaf, newRule, operatorsOf, withOperator } from '../src/features/rules/rule';
import { asSegmentList, fitsForm } from '../src/features/rules/form-support';

const event = (value: unknown): Leaf => ({ field: 'event:order_completed', operator: 'did', value });
const message = (value: unknown): Leaf => ({ field: 'message:EMAIL', operator: 'did_not', value });
const property = (operator: Leaf['operator'], value?: unknown): Leaf => ({
  field: 'properties.plan',
  operator,
  ...(value !== undefined && { value }),
});

test('rules created in the form fit the form', () => {
  for (const kind of ['property', 'event', 'message', 'segment'] satisfies Kind[]) {
    for (const operator of operatorsOf(kind))
      expect(fitsForm(withOperator(newRule(kind) as Leaf, operator)), operator).toBe(true);
  }
});

test('rules that the form can represent fit the form', () => {
  const simple = [
    property('eq', 3),
    property('in', ['pro', 'free']),
    property('in', [true]),
    property('between', [1, 5]),
    property('exists'),
    event(undefined),
    event({}),
    event({ count: { lte: 0 }, within: '30d', where: [property('eq', 'pro')], sum: { property: 'total', gte: 100 } }),
    message({ status: 'clicked', count: { eq: 2 } }),
  ];
  for (const leaf of simple) expect(fitsForm(leaf), JSON.stringify(leaf)).toBe(true);
});

test('rules that the form cannot represent do not fit', () => {
  const complex = [
    property('in', [1, '1']),
    property('in', [true, false]),
    property('eq', null),
    property('between', [1]),
    property('within_last', 30),
    event({ count: { gte: 2, lte: 5 } }),
    event({ sum: { property: 'total', gte: 1 }, avg: { property: 'total', gte: 1 } }),
    event({ sum: { property: 'total', gte: 1, lt: 9 } }),
    event({ status: 'opened' }),
    event({ later: 1 }),
    event('often'),
    message({ where: [] }),
    message({ sum: { property: 'total', gte: 1 } }),
  ];
  for (const leaf of complex) expect(fitsForm(leaf), JSON.stringify(leaf)).toBe(false);
});

test('single segment is converted to a list', () => {
  expect(asSegmentList({ field: 'segment', operator: 'eq', value: 'a' })).toEqual({
    field: 'segment',
    operator: 'in',
    value: ['a'],
  });
  expect(asSegmentList({ field: 'segment', operator: 'neq', value: 'a' })).toEqual({
    field: 'segment',
    operator: 'not_in',
    value: ['a'],
  });
  expect([
    fitsForm({ field: 'segment', operator: 'eq', value: 'a' }),
    fitsForm({ field: 'segment', operator: 'eq', value: 7 }),
  ]).toEqual([true, false]);
});
