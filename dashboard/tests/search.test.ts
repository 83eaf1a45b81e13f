import { expect, test } from 'vitest';
import { among, page, word } from '../src/app/search';

test('what an address holds is read with care', () => {
  expect([
    page({ page: 3 }),
    page({ page: '3' }),
    page({ page: 1 }),
    page({ page: -1 }),
    page({ page: 'x' }),
    page({ page: 1e9 }),
  ]).toEqual([3, 3, undefined, undefined, undefined, undefined]);
  expect([
    word({ a: 'x' }, 'a'),
    word({ a: 7 }, 'a'),
    word({ a: '' }, 'a'),
    word({ a: {} }, 'a'),
    word({}, 'a'),
  ]).toEqual(['x', '7', undefined, undefined, undefined]);
  expect([among({ a: 'b' }, 'a', ['b', 'c']), among({ a: 'd' }, 'a', ['b', 'c'])]).toEqual(['b', undefined]);
});
