import { describe, expect, test } from 'vitest';
import { EMPTY, inputOf, planOf } from '../src/features/automations/plan';
import {
  STEP_TYPES,
  type Step,
  cleaned,
  countSteps,
  freshStep,
  moved,
  readDuration,
  shownDuration,
} from '../src/features/automations/step';

describe('steps', () => {
  test('a fresh step is nobody else’s', () => {
    for (const type of STEP_TYPES) {
      const step = freshStep(type);
      expect(step.type).toBe(type);
      step.branches?.pop();
      expect(freshStep(type).branches?.length).not.toBe(step.branches ? step.branches.length : -1);
    }
  });

  test('times are read as they are shown', () => {
    for (const [seconds, shown] of [
      [259_200, '3d'],
      [5_400, '90m'],
      [3_600, '1h'],
      [90, '90'],
      [0, '0'],
      [-86_400, '-1d'],
    ] as const)
      expect(shownDuration(seconds)).toBe(shown);
    expect(shownDuration(undefined)).toBe('');
    expect(shownDuration('3d')).toBe('3d');
    expect([readDuration('90'), readDuration('1.5'), readDuration('3d'), readDuration('soon')]).toEqual([
      90,
      1.5,
      '3d',
      'soon',
    ]);
  });

  test('a step moves by one place, and no further than the ends', () => {
    expect(moved(['a', 'b', 'c'], 0, 1)).toEqual(['b', 'a', 'c']);
    expect(moved(['a', 'b', 'c'], 0, -1)).toEqual(['a', 'b', 'c']);
    expect(moved(['a', 'b', 'c'], 2, 1)).toEqual(['a', 'b', 'c']);
  });

  test('steps in arms count, and are cleaned as well', () => {
    const inner: Step = { type: 'WAIT_UNTIL', time: '09:00', property: '', offset: '', name: '' };
    const step: Step = { type: 'BRANCH', branches: [{ rules: [], steps: [inner] }], else: [inner] };
    expect(countSteps([step, inner])).toBe(4);
    const clean: Step = { type: 'WAIT_UNTIL', time: '09:00' };
    expect(cleaned(step)).toEqual({ type: 'BRANCH', branches: [{ rules: [], steps: [clean] }], else: [clean] });
    expect(cleaned({ type: 'SEND_EMAIL', templateId: '' })).toEqual({ type: 'SEND_EMAIL', templateId: '' });
  });
});

describe('a plan', () => {
  test('says of the triggers only what the chosen one asks for', () => {
    const plan = {
      ...EMPTY,
      triggerEvent: 'signed_up',
      triggerSegmentId: 's',
      date: { property: 'birthday', offset: '-3d', time: '', repeat: 'yearly' as const },
    };
    expect(inputOf({ ...plan, triggerType: 'EVENT' })).toMatchObject({
      triggerEvent: 'signed_up',
      triggerSegmentId: null,
      triggerDate: null,
    });
    expect(inputOf({ ...plan, triggerType: 'SEGMENT_ENTER' })).toMatchObject({
      triggerEvent: null,
      triggerSegmentId: 's',
      triggerDate: null,
    });
    expect(inputOf({ ...plan, triggerType: 'DATE_PROPERTY' })).toMatchObject({
      triggerEvent: null,
      triggerSegmentId: null,
      triggerDate: { property: 'birthday', offset: '-3d', repeat: 'yearly' },
    });
  });

  test('is sent as it was read, with every field', () => {
    const rules = [{ field: 'properties.total', operator: 'gte' as const, value: 5 }];
    const input = {
      name: 'Welcome',
      triggerType: 'EVENT' as const,
      triggerEvent: 'signed_up',
      triggerFilter: rules,
      triggerSegmentId: null,
      triggerDate: null,
      entryRules: rules,
      exitRules: rules,
      reentry: 'once' as const,
      goal: { event: 'order_completed', within: '7d', where: rules },
      steps: [{ type: 'EXIT' }],
    };
    const automation = {
      ...input,
      id: 'a',
      active: true,
      version: 3,
      createdAt: '',
      updatedAt: '',
    } as unknown as Parameters<typeof planOf>[0];
    expect(inputOf(planOf(automation))).toEqual(input);
    const dated = {
      ...input,
      triggerType: 'DATE_PROPERTY' as const,
      triggerEvent: null,
      triggerFilter: null,
      triggerDate: { property: 'birthday', offset: '-3d', time: '09:00', repeat: 'yearly' as const },
    };
    expect(inputOf(planOf({ ...automation, ...dated } as unknown as typeof automation))).toEqual(dated);
  });
});
