import { describe, expect, test } from 'vitest';
import { EMPTY, evenly, inputOf, onClock, settledOf } from '../src/features/campaigns/plan';

describe('a campaign', () => {
  test('weights of variants always add up', () => {
    for (const count of [2, 3, 7, 10]) {
      const variants = evenly(Array.from({ length: count }, (_, index) => ({ name: String(index), templateId: 't', weight: 1 })));
      expect(variants.reduce((sum, { weight }) => sum + weight, 0)).toBe(100);
      expect(Math.max(...variants.map(({ weight }) => weight)) - Math.min(...variants.map(({ weight }) => weight))).toBeLessThanOrEqual(1);
    }
  });

  test('with variants has no template of its own, and without them no winner', () => {
    const winner = { metric: 'opened' as const, testShare: 20, afterMinutes: 60 };
    const variants = evenly([{ name: 'A', templateId: 'a', weight: 1 }, { name: 'B', templateId: 'b', weight: 1 }]);
    expect(inputOf({ ...EMPTY, templateId: 't', variants, winner })).toMatchObject({ templateId: null, winner });
    expect(inputOf({ ...EMPTY, templateId: 't', winner })).toMatchObject({ templateId: 't', winner: null });
  });

  test('a time is of the viewer’s clock, to the minute and back', () => {
    const at = '2026-03-05T07:08:00.000Z';
    expect(inputOf({ ...EMPTY, scheduledAt: onClock(at) }).scheduledAt).toBe(at);
    expect(inputOf(EMPTY)).toMatchObject({ scheduledAt: null, throttlePerMinute: null });
  });

  test('what is queued is not settled', () => {
    expect(settledOf({ queued: 5, sent: 2, suppressed: 1, opened: 1 })).toBe(4);
  });
});
