import { describe, expect, test } from 'vitest';
import { ApiFailure } from '../src/api/failure';
import { errorText, fieldName, namesOf, rulePartName } from '../src/app/field-labels';
import { automationFieldNames } from '../src/features/automations/field-names';

const LABELS = {
  name: 'Name',
  retention: 'Retention (days)',
  'goal.event': 'Event',
  goal: 'Conversion goal',
  rules: 'Conditions',
  tags: 'Tags',
  variants: 'A/B test',
  'variants[]': (number: number) => `Variant ${number}`,
  'variants[].weight': 'Traffic (%)',
};

describe('field names', () => {
  test('are the form’s labels, without hints', () => {
    expect(fieldName('name', LABELS)).toBe('Name');
    expect(fieldName('retention', LABELS)).toBe('Retention');
    expect(fieldName('goal.event', LABELS)).toBe('Conversion goal › Event');
    expect(fieldName('tags[2]', LABELS)).toBe('Tags › Entry 3');
    expect(fieldName('variants[1].weight', LABELS)).toBe('A/B test › Variant 2 › Traffic');
  });

  test('name conditions and their parts', () => {
    expect(fieldName('rules[0].value', LABELS)).toBe('Conditions › Condition 1 › Value');
    expect(fieldName('rules[1].any[0].operator', LABELS)).toBe(
      'Conditions › Condition 2 › Any of › Condition 1 › Operator',
    );
    expect(rulePartName('value.where[0].field')).toBe('Value › Event filter › Condition 1 › Field');
    expect(rulePartName('unknown')).toBe('unknown');
    expect(rulePartName('')).toBe('');
  });

  test('are undefined for fields that the form does not have', () => {
    for (const field of ['', 'other', 'other.name', 'constructor', '[0]'])
      expect(fieldName(field, LABELS)).toBeUndefined();
    expect(fieldName('goal.other', LABELS)).toBe('Conversion goal › other');
  });
});

describe('fields of an automation', () => {
  const nameField = automationFieldNames({
    triggerType: 'EVENT',
    steps: [
      { type: 'WAIT', delay: 60 },
      {
        type: 'BRANCH',
        branches: [{ rules: [], steps: [{ type: 'WEBHOOK', name: 'order', url: '' }] }],
        else: [{ type: 'WAIT_FOR_EVENT', event: '', then: [], else: [{ type: 'EXIT' }] }],
      },
    ],
  });

  test('name their step and its position', () => {
    expect(nameField('steps[0].delay')).toBe('Wait (step 1) › Duration');
    expect(nameField('steps[1].branches[0].rules[0].value')).toBe(
      'Conditional split (step 2) › Paths › Path 1 › Conditions › Condition 1 › Value',
    );
    expect(nameField('steps[1].branches[0].steps[0].url')).toBe(
      'Send webhook “order” (step 1 in “Path 1” of step 2) › URL',
    );
    expect(nameField('steps[1].else[0].else[0]')).toBe(
      'Exit (step 1 in “Timed out” of step 1 in “Everyone else” of step 2)',
    );
    expect(nameField('steps[9].other')).toBe('step 10 › other');
    expect(nameField('steps')).toBe('Workflow');
  });

  test('outside the steps are named like those of other forms', () => {
    expect(nameField('triggerEvent')).toBe('Event');
    expect(automationFieldNames({ triggerType: 'WEBHOOK', steps: [] })('triggerEvent')).toBe('Webhook name');
    expect(nameField('exitRules[0].field')).toBe('Exit conditions › Condition 1 › Field');
    expect(nameField('other')).toBeUndefined();
  });
});

test('an error in a notification names its fields', () => {
  const invalid = new ApiFailure(422, 'name: is needed', [
    { field: 'name', message: 'is needed' },
    { field: 'other', message: 'is unknown' },
  ]);
  expect(errorText(invalid, namesOf(LABELS))).toBe('Name: is needed; other: is unknown');
  expect(errorText(new Error('no connection'), namesOf(LABELS))).toBe('no connection');
});
