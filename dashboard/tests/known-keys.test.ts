import { expect, test } from 'vitest';
import { forgetKey, knownKey, rememberKey } from '../src/app/known-keys';

test('a key is offered until it is revoked, and no other for that', () => {
  rememberKey('shop', 'pk_live_abcd1234');
  rememberKey('blog', 'pk_live_abcd5678');
  forgetKey('shop', 'pk_live_zzzz');
  expect(knownKey('shop')).toBe('pk_live_abcd1234');
  forgetKey('shop', 'pk_live_abcd');
  expect([knownKey('shop'), knownKey('blog')]).toEqual([undefined, 'pk_live_abcd5678']);
});
