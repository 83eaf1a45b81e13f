import { expect, test } from 'vitest';
import { userPage } from '../src/features/users/user-ref';

test('URL of a user without an external ID uses the internal ID with its type', () => {
  expect(userPage({ id: 'i', externalId: 'ann' })).toEqual({ userId: 'ann', search: {} });
  expect(userPage({ id: 'i', externalId: null })).toEqual({ userId: 'i', search: { idType: 'internal' } });
});
