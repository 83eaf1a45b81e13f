import { describe, expect, test } from 'vitest';
import { EMAIL, PUSH, SMS, changesOf, valuesOf } from '../src/features/channels/fields';

describe('channel fields', () => {
  test('secrets are never shown, and sent only after they were typed', () => {
    const stored = valuesOf(EMAIL, {
      provider: 'SMTP',
      smtpPort: 25,
      smtpHost: null,
      smtpPassword: 'returned by mistake',
    });
    expect(stored.smtpPassword).toBe('');
    expect(changesOf(EMAIL, stored, { ...stored, smtpHost: 'mail.example.com' })).toEqual({
      smtpHost: 'mail.example.com',
    });
    expect(changesOf(EMAIL, stored, { ...stored, smtpPassword: 'new' })).toEqual({ smtpPassword: 'new' });
    expect(changesOf(EMAIL, stored, { ...stored, smtpPort: '587' })).toEqual({ smtpPort: 587 });
    expect(changesOf(EMAIL, stored, { ...stored, smtpPort: '' })).toEqual({ smtpPort: '' });
  });

  test('secret fields have no source in the response', () => {
    for (const field of [...EMAIL, ...PUSH, ...SMS])
      expect(field.source === undefined, field.name).toBe(field.kind.startsWith('secret'));
  });
});
