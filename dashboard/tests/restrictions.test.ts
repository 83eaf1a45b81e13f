import { expect, test } from 'vitest';
import { EMPTY, draftOf, fieldsOf } from '../src/features/access/restrictions';

test('origins are separated by lines or commas, and an empty limit is null', () => {
  const typed = {
    ...EMPTY,
    name: 'shop',
    origins: ' https://a.example\n\nhttps://*.b.example, http://localhost:3000 ',
    limit: '',
  };
  expect(fieldsOf(typed)).toEqual({
    name: 'shop',
    allowedOrigins: ['https://a.example', 'https://*.b.example', 'http://localhost:3000'],
    rateLimit: null,
  });
  expect(fieldsOf({ ...typed, limit: '200' }).rateLimit).toBe(200);
});

test('secret key has no restrictions', () => {
  expect(fieldsOf({ name: 'backend', type: 'secret', origins: 'https://a.example', limit: '5' })).toEqual({
    name: 'backend',
    allowedOrigins: [],
    rateLimit: null,
  });
});

test('form values of a key convert back to the same fields', () => {
  const key = {
    name: 'shop',
    type: 'public' as const,
    allowedOrigins: ['https://a.example', 'https://b.example'],
    rateLimit: 200,
  };
  const { type, ...fields } = key;
  expect(draftOf(key).type).toBe(type);
  expect(fieldsOf(draftOf(key))).toEqual(fields);
  expect(fieldsOf(draftOf({ ...key, allowedOrigins: [], rateLimit: null }))).toEqual({
    name: 'shop',
    allowedOrigins: [],
    rateLimit: null,
  });
});
