import { describe, expect, test } from 'vitest';
import { changesOf, mergeSaved } from '../src/app/draft';
import { profileOf } from '../src/features/users/profile';

describe('draft', () => {
  const base = { name: 'Pro', rules: [{ field: 'email' }], rate: 5 };

  test('contains only fields that differ from the base', () => {
    expect(changesOf(base, { ...base, rules: [{ field: 'email' }] })).toEqual({});
    expect(changesOf(base, { ...base, rules: [], rate: 6 })).toEqual({ rules: [], rate: 6 });
  });

  test('keeps edits made while saving and takes other fields as stored', () => {
    const sent = { ...base, name: ' Pros ' };
    const stored = { ...base, name: 'Pros', rate: 7 };
    expect(mergeSaved(sent, sent, stored)).toEqual(stored);
    const edited = { ...sent, rules: [] };
    expect(mergeSaved(edited, sent, stored)).toEqual({ ...stored, rules: [] });
    expect(changesOf(stored, mergeSaved(edited, sent, stored))).toEqual({ rules: [] });
  });
});

test('only changed fields of a profile are sent', () => {
  const base = { name: 'Ann', email: '', properties: {} };
  expect(profileOf(changesOf<typeof base>(base, { ...base, properties: { email: 'ann@example.com' } }))).toEqual({
    properties: { email: 'ann@example.com' },
  });
  expect(profileOf(changesOf(base, { ...base, name: '' }))).toEqual({ name: null });
});
