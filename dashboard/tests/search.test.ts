import { expect, test } from 'vitest';
import { enumParam, pageParam, textParam } from '../src/app/search';

test('query parameters are validated', () => {
  expect([
    pageParam({ page: 3 }),
    pageParam({ page: '3' }),
    pageParam({ page: 1 }),
    pageParam({ page: -1 }),
    pageParam({ page: 'x' }),
    pageParam({ page: 1e9 }),
  ]).toEqual([3, 3, undefined, undefined, undefined, undefined]);
  expect([
    textParam({ a: 'x' }, 'a'),
    textParam({ a: 7 }, 'a'),
    textParam({ a: '' }, 'a'),
    textParam({ a: {} }, 'a'),
    textParam({}, 'a'),
  ]).toEqual(['x', '7', undefined, undefined, undefined]);
  expect([enumParam({ a: 'b' }, 'a', ['b', 'c']), enumParam({ a: 'd' }, 'a', ['b', 'c'])]).toEqual(['b', undefined]);
});
