import { describe, expect, test } from 'vitest';
import { EMAIL, PUSH, SMS, changesOf, valuesOf } from '../src/features/channels/fields';

describe('a channel’s fields', () => {
  test('secrets are never shown, and only sent when they were typed', () => {
    const stored = valuesOf(EMAIL, { provider: 'SMTP', smtpPort: 25, smtpHost: null, smtpPassword: 'told by mistake' });
    expect(stored.smtpPassword).toBe('');
    expect(changesOf(EMAIL, stored, { ...stored, smtpHost: 'mail.example.com' })).toEqual({
      smtpHost: 'mail.example.com',
    });
    expect(changesOf(EMAIL, stored, { ...stored, smtpPassword: 'new' })).toEqual({ smtpPassword: 'new' });
    expect(changesOf(EMAIL, stored, { ...stored, smtpPort: '587' })).toEqual({ smtpPort: 587 });
    expect(changesOf(EMAIL, stored, { ...stored, smtpPort: '' })).toEqual({ smtpPort: '' });
  });

  test('secrets are told by no field', () => {
    for (const field of [...EMAIL, ...PUSH, ...SMS])
      expect(field.told === undefined, field.name).toBe(field.kind.startsWith('secret'));
  });
});
