import { describe, expect, test } from 'vitest';
import { formatList, parseList } from '../src/app/texts';
import { Unreadable, isReadable, readJson, formatJson } from '../src/app/typed-json';
import { type Step, cleaned, isStepReadable } from '../src/features/automations/step';

describe('typed JSON', () => {
  test('is parsed, or kept as typed and never sent', () => {
    expect(readJson('{"plan": "pro"}', {})).toEqual({ plan: 'pro' });
    expect(readJson(' ', {})).toEqual({});
    const unreadable = readJson('{"plan": ', {});
    expect(unreadable).toBeInstanceOf(Unreadable);
    expect(formatJson(unreadable)).toBe('{"plan": ');
    expect(isReadable({ plan: 'pro', list: [null, 1, { deep: undefined }] })).toBe(true);
    const step: Step = { type: 'UPDATE_USER', properties: unreadable };
    const outer: Step = { type: 'BRANCH', branches: [{ rules: [], steps: [step] }] };
    expect([isReadable(outer), isReadable(cleaned(outer))]).toEqual([false, false]);
    // Only the step that contains the unreadable text is affected.
    const ruled: Step = { type: 'BRANCH', branches: [{ rules: [unreadable], steps: [] }] };
    const waiting: Step = { type: 'WAIT_FOR_EVENT', event: 'paid', then: [step], else: [step] };
    expect([step, outer, ruled, waiting].map(isStepReadable)).toEqual([false, true, false, true]);
  });
});

describe('comma-separated list', () => {
  test('is parsed as it was formatted, also with commas in texts', () => {
    for (const texts of [[], ['a', 'b'], ['Doe, Jane', 'b'], ['say "hi"', 'x,"y"'], [' led', 'lag ', ''], ['"']])
      expect(parseList(formatList(texts)), formatList(texts)).toEqual(texts);
  });

  test('needs no quotes for plain texts', () => {
    expect(formatList(['pro', 'free'])).toBe('pro, free');
    expect(parseList(' pro,,free , ')).toEqual(['pro', 'free']);
  });
});
