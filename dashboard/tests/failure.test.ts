import { describe, expect, test } from 'vitest';
import { failureOf, problemOf, problemsWithin } from '../src/api/failure';

const invalid = failureOf(
  422,
  {
    message: 'steps[1].delay: 1 to 9',
    requestId: 'r-1',
    details: [
      { field: 'steps[1].delay', message: '1 to 9' },
      { field: 'name', message: 'is needed' },
    ],
  },
  null,
);

describe('failure', () => {
  test('contains the API’s message and details', () => {
    expect(invalid).toMatchObject({
      status: 422,
      message: 'steps[1].delay: 1 to 9',
      requestId: 'r-1',
      retryAfter: null,
    });
    expect(problemOf(invalid, 'name')).toBe('is needed');
    expect(problemOf(invalid, 'steps')).toBeUndefined();
    expect(problemOf(new Error('other'), 'name')).toBeUndefined();
  });

  test('returns problems of a field and of the fields in it only', () => {
    expect(problemsWithin(invalid, 'steps[1]')).toEqual([{ field: 'steps[1].delay', message: '1 to 9' }]);
    expect(problemsWithin(invalid, 'steps')).toHaveLength(1);
    expect(problemsWithin(invalid, 'steps[10]')).toEqual([]);
    expect(problemsWithin(invalid, 'steps[1].de')).toEqual([]);
  });

  test('is created for responses that are not from the API', () => {
    for (const body of [null, undefined, 'Bad Gateway', {}, { message: 7 }])
      expect(failureOf(502, body, '3')).toMatchObject({ status: 502, details: [], retryAfter: 3 });
    expect(failureOf(429, { message: 'slow down', details: [{ field: 1 }, null] }, 'soon')).toMatchObject({
      message: 'slow down',
      details: [],
      retryAfter: null,
    });
  });
});
