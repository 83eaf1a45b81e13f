import { describe, expect, test } from 'vitest';
import { EMPTY, inputOf, planOf } from '../src/features/automations/plan';
import {
  STEP_TYPES,
  type Step,
  cleaned,
  countSteps,
  newStep,
  moved,
  parseDuration,
  formatDuration,
} from '../src/features/automations/step';

describe('steps', () => {
  test('new steps share no data', () => {
    for (const type of STEP_TYPES) {
      const step = newStep(type);
      expect(step.type).toBe(type);
      step.branches?.pop();
      expect(newStep(type).branches?.length).not.toBe(step.branches ? step.branches.length : -1);
    }
  });

  test('formatted durations are parsed to the same value', () => {
    for (const [seconds, shown] of [
      [259_200, '3d'],
      [5_400, '90m'],
      [3_600, '1h'],
      [90, '90'],
      [0, '0'],
      [-86_400, '-1d'],
    ] as const)
      expect(formatDuration(seconds)).toBe(shown);
    expect(formatDuration(undefined)).toBe('');
    expect(formatDuration('3d')).toBe('3d');
    expect([parseDuration('90'), parseDuration('1.5'), parseDuration('3d'), parseDuration('soon')]).toEqual([
      90,
      1.5,
      '3d',
      'soon',
    ]);
  });

  test('step moves by one position and stops at the ends', () => {
    expect(moved(['a', 'b', 'c'], 0, 1)).toEqual(['b', 'a', 'c']);
    expect(moved(['a', 'b', 'c'], 0, -1)).toEqual(['a', 'b', 'c']);
    expect(moved(['a', 'b', 'c'], 2, 1)).toEqual(['a', 'b', 'c']);
  });

  test('steps in branches are counted and cleaned', () => {
    const inner: Step = { type: 'WAIT_UNTIL', time: '09:00', property: '', offset: '', name: '' };
    const step: Step = { type: 'BRANCH', branches: [{ rules: [], steps: [inner] }], else: [inner] };
    expect(countSteps([step, inner])).toBe(4);
    const clean: Step = { type: 'WAIT_UNTIL', time: '09:00' };
    expect(cleaned(step)).toEqual({ type: 'BRANCH', branches: [{ rules: [], steps: [clean] }], else: [clean] });
    expect(cleaned({ type: 'SEND_EMAIL', templateId: '' })).toEqual({ type: 'SEND_EMAIL', templateId: '' });
  });
});

describe('plan', () => {
  test('contains only the fields of the selected trigger type', () => {
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

  test('is sent with every field as it was read', () => {
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
