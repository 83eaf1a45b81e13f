import { expect, test } from 'vitest';
import { ApiFailure } from '../src/api/failure';
import { problemsOf, problemsNotInRules } from '../src/features/automations/step-problems';

const refused = (...fields: string[]) =>
  new ApiFailure(
    422,
    'no',
    fields.map((field) => ({ field, message: 'must be another' })),
  );
const fieldsAt = (fields: string[], path: string) => problemsOf(refused(...fields), path).map(({ field }) => field);

test('problems of a step include those of its branches', () => {
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
  expect(fieldsAt(own, 'steps[0]')).toEqual(own);
  expect(fieldsAt(own, 'steps[1]')).toEqual([]);
});

test('problems of a step exclude those of the steps in its branches', () => {
  const inner = [
    'steps[0].branches[1].steps[0].branches[0].rules[0].value',
    'steps[0].then[0].delay',
    'steps[0].else[2].branches[0].weight',
  ];
  expect(fieldsAt(inner, 'steps[0]')).toEqual([]);
  expect(fieldsAt(inner, 'steps[0].branches[1].steps[0]')).toEqual([inner[0]]);
  expect(fieldsAt(inner, 'steps[0].else[2]')).toEqual([inner[2]]);
});

test('problems that the rule editor shows are excluded from the step form', () => {
  const error = refused('steps[0].branches[1].rules[0].value', 'steps[0].branches[1].weight');
  expect(problemsNotInRules(error, 'steps[0]').map(({ field }) => field)).toEqual(['steps[0].branches[1].weight']);
});
