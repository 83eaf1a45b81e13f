import { expect, test } from 'vitest';
import { ApiFailure } from '../src/api/failure';
import { problemsOf, untoldProblems } from '../src/features/automations/step-problems';

const refused = (...fields: string[]) =>
  new ApiFailure(
    422,
    'no',
    fields.map((field) => ({ field, message: 'must be another' })),
  );
const told = (fields: string[], place: string) => problemsOf(refused(...fields), place).map(({ field }) => field);

test('a step is marked for what is wrong with it or with its ways', () => {
  const own = [
    'steps[0].branches[1].rules[0].value',
    'steps[0].branches[1].rules[2].any[0].field',
    'steps[0].branches[0].weight',
    'steps[0].branches',
    'steps[0].then',
    'steps[0].branches[0].steps',
    'steps[0].delay',
    'steps[0]',
  ];
  expect(told(own, 'steps[0]')).toEqual(own);
  expect(told(own, 'steps[1]')).toEqual([]);
});

test('and not for what is wrong with a step in one of them', () => {
  const inner = [
    'steps[0].branches[1].steps[0].branches[0].rules[0].value',
    'steps[0].then[0].delay',
    'steps[0].else[2].branches[0].weight',
  ];
  expect(told(inner, 'steps[0]')).toEqual([]);
  expect(told(inner, 'steps[0].branches[1].steps[0]')).toEqual([inner[0]]);
  expect(told(inner, 'steps[0].else[2]')).toEqual([inner[2]]);
});

test('its form says once what a rule’s own editor says', () => {
  const error = refused('steps[0].branches[1].rules[0].value', 'steps[0].branches[1].weight');
  expect(untoldProblems(error, 'steps[0]').map(({ field }) => field)).toEqual(['steps[0].branches[1].weight']);
});
