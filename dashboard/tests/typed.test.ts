import { describe, expect, test } from 'vitest';
import { listed, readList } from '../src/app/texts';
import { Unreadable, isReadable, readJson, shownJson } from '../src/app/typed-json';
import { type Step, cleaned, isStepReadable } from '../src/features/automations/step';

describe('typed JSON', () => {
  test('is read, or kept as it is typed and never sent', () => {
    expect(readJson('{"plan": "pro"}', {})).toEqual({ plan: 'pro' });
    expect(readJson(' ', {})).toEqual({});
    const unreadable = readJson('{"plan": ', {});
    expect(unreadable).toBeInstanceOf(Unreadable);
    expect(shownJson(unreadable)).toBe('{"plan": ');
    expect(isReadable({ plan: 'pro', list: [null, 1, { deep: undefined }] })).toBe(true);
    const step: Step = { type: 'UPDATE_USER', properties: unreadable };
    const outer: Step = { type: 'BRANCH', branches: [{ rules: [], steps: [step] }] };
    expect([isReadable(outer), isReadable(cleaned(outer))]).toEqual([false, false]);
    // It is wrong with the step where it is typed, and no other.
    const ruled: Step = { type: 'BRANCH', branches: [{ rules: [unreadable], steps: [] }] };
    const waiting: Step = { type: 'WAIT_FOR_EVENT', event: 'paid', then: [step], else: [step] };
    expect([step, outer, ruled, waiting].map(isStepReadable)).toEqual([false, true, false, true]);
  });
});

describe('texts in a line', () => {
  test('are read as they are written, also with commas in them', () => {
    for (const texts of [[], ['a', 'b'], ['Doe, Jane', 'b'], ['say "hi"', 'x,"y"'], [' led', 'lag ', ''], ['"']])
      expect(readList(listed(texts)), listed(texts)).toEqual(texts);
  });

  test('need no quotes', () => {
    expect(listed(['pro', 'free'])).toBe('pro, free');
    expect(readList(' pro,,free , ')).toEqual(['pro', 'free']);
  });
});
