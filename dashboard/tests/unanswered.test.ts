import { describe, expect, test, vi } from 'vitest';
import { Unanswered } from '../src/api/unanswered';

describe('request without a response', () => {
  test('keeps its key when it is repeated unchanged', () => {
    const unanswered = new Unanswered();
    const first = unanswered.keyOf('a', 'body');
    expect(first).toMatch(/^[0-9a-f-]{36}$/);
    expect(unanswered.keyOf('a', 'body')).toBe(first);
    expect(unanswered.keyOf('b', 'body')).not.toBe(first);
    expect(unanswered.keyOf('a', 'other')).not.toBe(first);
  });

  test('has a key even if the page was loaded over plain HTTP', () => {
    vi.stubGlobal('crypto', { getRandomValues: crypto.getRandomValues.bind(crypto) });
    try {
      expect(new Unanswered().keyOf('a', 'body')).toMatch(
        /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
      );
    } finally {
      vi.unstubAllGlobals();
    }
  });

  test('gets a new key after a response', () => {
    const unanswered = new Unanswered();
    const first = unanswered.keyOf('a', 'body');
    unanswered.answered('a', first);
    const second = unanswered.keyOf('a', 'body');
    expect(second).not.toBe(first);
    // A late response to the first request does not complete the second.
    unanswered.answered('a', first);
    expect(unanswered.keyOf('a', 'body')).toBe(second);
  });
});
