import { describe, expect, test } from 'vitest';
import { OWN_ZONE, fromLocalTime, toLocalTime } from '../src/features/campaigns/clock';
import { EMPTY, changeOf, splitEvenly, inputOf, isScheduled, processedCount } from '../src/features/campaigns/plan';

describe('campaign', () => {
  test('weights of variants add up to 100', () => {
    for (const count of [2, 3, 7, 10]) {
      const variants = splitEvenly(
        Array.from({ length: count }, (_, index) => ({ name: String(index), templateId: 't', weight: 1 })),
      );
      expect(variants.reduce((sum, { weight }) => sum + weight, 0)).toBe(100);
      expect(
        Math.max(...variants.map(({ weight }) => weight)) - Math.min(...variants.map(({ weight }) => weight)),
      ).toBeLessThanOrEqual(1);
    }
  });

  test('has no template of its own with variants, and no winner without them', () => {
    const winner = { metric: 'opened' as const, testShare: 20, afterMinutes: 60 };
    const variants = splitEvenly([
      { name: 'A', templateId: 'a', weight: 1 },
      { name: 'B', templateId: 'b', weight: 1 },
    ]);
    expect(inputOf({ ...EMPTY, templateId: 't', variants, winner }, 'UTC')).toMatchObject({ templateId: null, winner });
    expect(inputOf({ ...EMPTY, templateId: 't', winner }, 'UTC')).toMatchObject({ templateId: 't', winner: null });
  });

  test('scheduled time is in the viewer’s time zone, to the minute', () => {
    const at = '2026-03-05T07:08:00.000Z';
    expect(inputOf({ ...EMPTY, scheduledAt: toLocalTime(at, OWN_ZONE) }, 'Asia/Tokyo').scheduledAt).toBe(at);
    expect(inputOf(EMPTY, 'UTC')).toMatchObject({ scheduledAt: null, throttlePerMinute: null });
  });

  test('scheduled time in each recipient’s time zone is interpreted in the project’s', () => {
    const plan = { ...EMPTY, scheduledAt: '2026-07-01T09:00', sendInUserTimezone: true };
    expect(inputOf(plan, 'Asia/Tokyo').scheduledAt).toBe('2026-07-01T00:00:00.000Z');
    expect(inputOf(plan, 'America/New_York').scheduledAt).toBe('2026-07-01T13:00:00.000Z');
  });

  test('local times convert back and forth across clock changes', () => {
    for (const at of [
      '2026-03-29T00:59:00.000Z',
      '2026-03-29T01:00:00.000Z',
      '2026-10-25T02:30:00.000Z',
      '2026-12-31T23:59:00.000Z',
    ]) {
      for (const zone of ['UTC', 'Europe/Oslo', 'America/New_York', 'Asia/Kolkata', 'Pacific/Kiritimati'])
        expect(fromLocalTime(toLocalTime(at, zone), zone), `${zone} ${at}`).toBe(at);
    }
    // The clock change in Oslo skips 02:30 on that day.
    expect(fromLocalTime('2026-03-29T02:30', 'Europe/Oslo')).toBe('2026-03-29T01:30:00.000Z');
  });

  test('change contains only changed fields, including the time if its zone changes', () => {
    const stored = { ...EMPTY, name: 'News', scheduledAt: '2026-07-01T09:00', sendInUserTimezone: true };
    expect(changeOf({ ...stored, name: 'Old news' }, stored, 'Pacific/Kiritimati')).toEqual({ name: 'Old news' });
    expect(changeOf({ ...stored, scheduledAt: '' }, stored, 'UTC')).toEqual({ scheduledAt: null });
    const other = OWN_ZONE === 'Pacific/Kiritimati' ? 'UTC' : 'Pacific/Kiritimati';
    expect(Object.keys(changeOf({ ...stored, sendInUserTimezone: false }, stored, other)).sort()).toEqual([
      'scheduledAt',
      'sendInUserTimezone',
    ]);
    expect([isScheduled(stored), isScheduled(EMPTY)]).toEqual([true, false]);
  });

  test('queued messages are not processed', () => {
    expect(processedCount({ queued: 5, sent: 2, suppressed: 1, opened: 1 })).toBe(4);
  });
});
