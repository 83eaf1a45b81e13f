import { describe, expect, test } from 'vitest';
import { pathName } from '../src/features/automations/path-name';
import { currentStep, stepLabel, stepPosition } from '../src/features/automations/step-place';

const RUN = [
  { step: null, type: null, name: null },
  { step: 'steps[0]', type: 'WAIT_FOR_EVENT', name: 'order' },
  { step: 'steps[0].else[1]', type: 'BRANCH', name: null },
  { step: 'steps[0].else[1].else[0]', type: 'SEND_EMAIL', name: null },
];

describe('positions of steps', () => {
  test('name the branches of known steps', () => {
    expect(stepPosition('steps[2]', RUN)).toBe('step 3');
    expect(stepPosition('steps[0].then[0]', RUN)).toBe('step 1 in “Event received” of step 1');
    expect(stepPosition('steps[0].else[1].branches[2].steps[10]', RUN)).toBe(
      'step 11 in “Path 3” of step 2 in “Timed out” of step 1',
    );
    expect(stepPosition('steps[0].else[1].else[0]', RUN)).toBe(
      'step 1 in “Everyone else” of step 2 in “Timed out” of step 1',
    );
  });

  test('do not need the other steps', () => {
    expect(currentStep('steps[2]')).toBe('Step 3');
    expect(currentStep('steps[2].else[0]')).toBe('Step 1 in “Otherwise” of step 3');
    expect(currentStep('steps[2].branches[1].steps[0]')).toBe('Step 1 in “Path 2” of step 3');
    expect(currentStep(null)).toBe('–');
  });

  test('other texts are kept', () => {
    for (const path of ['', 'elsewhere', 'steps', 'steps[x]', 'steps[0].other[1]', 'steps[0]['])
      expect(stepPosition(path)).toBeNull();
    expect(currentStep('steps[0].other[1]')).toBe('steps[0].other[1]');
  });
});

test('a step is labelled by its type, its own name and its position', () => {
  expect(RUN.map((step) => stepLabel(step, RUN))).toEqual([
    '–',
    'Wait for event “order” (step 1)',
    'Conditional split (step 2 in “Timed out” of step 1)',
    'Send email (step 1 in “Everyone else” of step 2 in “Timed out” of step 1)',
  ]);
  expect(stepLabel({ step: 'steps[0]', type: 'NEW_TYPE' }, [])).toBe('NEW_TYPE (step 1)');
  expect(stepLabel({ step: 'unknown', type: 'WAIT' }, [])).toBe('Wait (unknown)');
});

test('a branch is named by the type of its step', () => {
  expect(pathName('then', 'WAIT_FOR_EVENT')).toBe('Event received');
  expect(pathName('else', 'WAIT_FOR_EVENT')).toBe('Timed out');
  expect(pathName('else', 'BRANCH')).toBe('Everyone else');
  expect(pathName('else', null)).toBe('Otherwise');
  expect(pathName('branches[1]', 'SPLIT')).toBe('Path 2');
  expect(pathName('other', 'BRANCH')).toBe('other');
});
