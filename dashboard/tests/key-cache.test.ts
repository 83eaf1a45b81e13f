import { expect, test } from 'vitest';
import { removeCachedKey, cachedKey, cacheKey } from '../src/app/key-cache';

test('key is available until it is revoked; other keys are unaffected', () => {
  cacheKey('shop', 'pk_live_abcd1234');
  cacheKey('blog', 'pk_live_abcd5678');
  removeCachedKey('shop', 'pk_live_zzzz');
  expect(cachedKey('shop')).toBe('pk_live_abcd1234');
  removeCachedKey('shop', 'pk_live_abcd');
  expect([cachedKey('shop'), cachedKey('blog')]).toEqual([undefined, 'pk_live_abcd5678']);
});
