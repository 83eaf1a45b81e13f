import { describe, expect, test } from 'vitest';
import { Unanswered } from '../src/api/unanswered';

describe('a request that was not answered', () => {
  test('goes under the same key again, as long as it is the same one', () => {
    const unanswered = new Unanswered();
    const first = unanswered.keyOf('a', 'body');
    expect(first).toMatch(/^[0-9a-f-]{36}$/);
    expect(unanswered.keyOf('a', 'body')).toBe(first);
    expect(unanswered.keyOf('b', 'body')).not.toBe(first);
    expect(unanswered.keyOf('a', 'other')).not.toBe(first);
  });

  test('is another one, once it was answered', () => {
    const unanswered = new Unanswered();
    const first = unanswered.keyOf('a', 'body');
    unanswered.answered('a', first);
    const second = unanswered.keyOf('a', 'body');
    expect(second).not.toBe(first);
    // A late answer to the first says nothing about the second.
    unanswered.answered('a', first);
    expect(unanswered.keyOf('a', 'body')).toBe(second);
  });
});
