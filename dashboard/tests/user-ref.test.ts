import { expect, test } from 'vitest';
import { userPage } from '../src/features/users/user-ref';

test('the page of a user without an external id is at their internal id, and at no equal external id', () => {
  expect(userPage({ id: 'i', externalId: 'ann' })).toEqual({ userId: 'ann', search: {} });
  expect(userPage({ id: 'i', externalId: null })).toEqual({ userId: 'i', search: { idType: 'internal' } });
});
