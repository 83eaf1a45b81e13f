import { describe, expect, test } from 'vitest';
import { changesOf, settled } from '../src/app/draft';
import { profileOf } from '../src/features/users/profile';

describe('a draft', () => {
  const base = { name: 'Pro', rules: [{ field: 'email' }], rate: 5 };

  test('has changed where it is no longer as it was, and nowhere else', () => {
    expect(changesOf(base, { ...base, rules: [{ field: 'email' }] })).toEqual({});
    expect(changesOf(base, { ...base, rules: [], rate: 6 })).toEqual({ rules: [], rate: 6 });
  });

  test('keeps what was typed while it was being saved, and takes the rest as it is stored', () => {
    const sent = { ...base, name: ' Pros ' };
    const stored = { ...base, name: 'Pros', rate: 7 };
    expect(settled(sent, sent, stored)).toEqual(stored);
    const typedOn = { ...sent, rules: [] };
    expect(settled(typedOn, sent, stored)).toEqual({ ...stored, rules: [] });
    expect(changesOf(stored, settled(typedOn, sent, stored))).toEqual({ rules: [] });
  });
});

test('of a profile only what was changed is sent', () => {
  const base = { name: 'Ann', email: '', properties: {} };
  expect(profileOf(changesOf<typeof base>(base, { ...base, properties: { email: 'ann@example.com' } }))).toEqual({
    properties: { email: 'ann@example.com' },
  });
  expect(profileOf(changesOf(base, { ...base, name: '' }))).toEqual({ name: null });
});
