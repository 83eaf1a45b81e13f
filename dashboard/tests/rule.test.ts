import { describe, expect, test } from 'vitest';
import {
  type Kind,
  type Leaf,
  newRule,
  kindOf,
  operatorsOf,
  parsed,
  shapeOf,
  trimmed,
  typeOf,
  withOperator,
} from '../src/features/rules/rule';

const KINDS: Kind[] = ['property', 'event', 'message', 'segment', 'any', 'all', 'not'];

describe('rules', () => {
  test('new rule of a kind has that kind', () => {
    for (const kind of KINDS) expect(kindOf(newRule(kind))).toBe(kind);
  });

  test('new rule has an operator that its kind allows', () => {
    for (const kind of ['property', 'event', 'message', 'segment'] as const)
      expect(operatorsOf(kind)).toContain((newRule(kind) as Leaf).operator);
  });

  test('changing the operator keeps a value that fits and replaces one that does not', () => {
    const plan: Leaf = { field: 'properties.plan', operator: 'eq', value: 'pro' };
    expect(withOperator(plan, 'neq').value).toBe('pro');
    expect(withOperator(plan, 'in').value).toEqual(['pro']);
    expect(withOperator({ ...plan, operator: 'in', value: ['pro', 'free'] }, 'eq').value).toBe('pro');
    expect(withOperator(plan, 'exists')).toEqual({ field: 'properties.plan', operator: 'exists' });
    for (const operator of operatorsOf('property')) {
      const { value } = withOperator({ ...plan, value: '' }, operator);
      const expected = {
        none: 'undefined',
        scalar: 'string',
        list: 'object',
        range: 'object',
        duration: 'string',
        date: 'string',
        behaviour: 'object',
      }[shapeOf(operator)];
      expect(typeof value, operator).toBe(expected);
    }
  });

  test('typed values have the selected type', () => {
    expect(parsed('3', 'number')).toBe(3);
    expect(parsed('3', 'text')).toBe('3');
    expect(parsed('-0.5', 'number')).toBe(-0.5);
    expect(parsed('much', 'number')).toBe('much');
    expect(parsed('', 'number')).toBe('');
    expect(parsed('true', 'boolean')).toBe(true);
    expect([typeOf(3), typeOf('3'), typeOf([true]), typeOf(undefined)]).toEqual(['number', 'text', 'boolean', 'text']);
  });

  test('empty parts of a behaviour are removed', () => {
    expect(trimmed({ count: undefined, within: '', where: [], status: 'opened' })).toEqual({ status: 'opened' });
    expect(trimmed({ count: { gte: 0 } })).toEqual({ count: { gte: 0 } });
  });
});
