import { expect, test } from 'vitest';
import { backoff, retryAfter } from '../src/backoff';
import { TOO_LARGE, bytes, toJson } from '../src/json';
import { settings } from '../src/options';
import { uuids } from '../src/uuid';

const random = (bytes: Uint8Array) => bytes.forEach((_, i) => (bytes[i] = Math.random() * 256));

test('IDs are version 7, contain the time, and sort in order of creation whatever the clock does', () => {
  let now = Date.UTC(2026, 5, 1);
  const uuid = uuids(() => now, random);
  const first = uuid();
  expect(first).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(parseInt(first.replace('-', '').slice(0, 12), 16)).toBe(now);
  const ids = [first];
  for (let i = 0; i < 20_000; i++) {
    if (i === 5_000) now -= 60_000;
    if (i === 15_000) now += 120_000;
    ids.push(uuid());
  }
  expect([...ids].sort()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
});

test('IDs differ without any randomness', () => {
  const uuid = uuids(
    () => 1,
    () => {},
  );
  expect(new Set(Array.from({ length: 10_000 }, uuid)).size).toBe(10_000);
});

test('values that JSON does not support are converted or omitted', () => {
  const cyclic: Record<string, unknown> = { a: 1n, f: () => 1, u: undefined, n: NaN };
  cyclic.self = cyclic;
  cyclic.deep = { up: cyclic, twice: [cyclic] };
  expect(toJson(cyclic)).toBe(
    '{"a":"1","n":null,"self":"[Circular]","deep":{"up":"[Circular]","twice":["[Circular]"]}}',
  );
  const shared = { x: 1 };
  expect(toJson({ a: shared, b: shared, c: [shared] })).toBe('{"a":{"x":1},"b":{"x":1},"c":[{"x":1}]}');
  expect(
    toJson({
      get boom() {
        throw new Error('no');
      },
    }),
  ).toBeUndefined();
  expect(toJson({ map: new Map([[1, 2]]), set: new Set([1]), bytes: new Uint8Array([1, 2]) })).toBe(
    '{"map":{},"set":{},"bytes":{"0":1,"1":2}}',
  );
  expect(toJson({ toJSON: () => ({ toJSON: 1, big: 2n }) })).toBe('{"toJSON":1,"big":"2"}');
  const element: Record<string, unknown> = { nodeType: 1, nodeName: 'BUTTON' };
  element.parent = { children: [element], element };
  expect(toJson({ target: element })).toBe('{"target":"[BUTTON]"}');
});

test('a densely linked graph or a huge text is rejected quickly', () => {
  // Like elements of a page, which link to their neighbours, their parent and their renderer.
  const rows = Array.from({ length: 40 }, () =>
    Array.from({ length: 40 }, (_, i) => ({ i }) as Record<string, unknown>),
  );
  const all = rows.flat();
  for (const [i, node] of all.entries())
    Object.assign(node, { next: all[i + 1], before: all[i - 1], down: all[i + 40], up: all[i - 40], all });
  const start = performance.now();
  expect(toJson({ target: all[0] })).toBe(TOO_LARGE);
  expect(toJson({ text: 'x'.repeat(20_000_000) })).toBe(TOO_LARGE);
  expect(toJson({ list: Array.from({ length: 1_000_000 }, () => 1) })).toBe(TOO_LARGE);
  expect(toJson({ toJSON: () => ({ text: 'x'.repeat(200_000) }) })).toBe(TOO_LARGE);
  expect(performance.now() - start).toBeLessThan(2_000);
  const proxy = new Proxy(
    {},
    {
      ownKeys: () => {
        throw new Error('no');
      },
    },
  );
  expect(toJson({ proxy })).toBeUndefined();
  expect(
    toJson({
      endless: new Proxy(
        {},
        {
          ownKeys: () => ['a'],
          getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }),
          get: () => ({ text: 'x'.repeat(101_000) }),
        },
      ),
    }),
  ).toBe(TOO_LARGE);
  expect(toJson({ map: new Map([[1, 2]]), when: new Date(0) })).toBe('{"map":{},"when":"1970-01-01T00:00:00.000Z"}');
  // Properties within the limit are sent.
  const large = { text: 'x'.repeat(32_000) };
  expect(toJson(large)).toBe(JSON.stringify(large));
});

test('bytes are counted as in UTF-8', () => {
  for (const text of ['', 'abc', 'ü', '€', '😀', 'a😀b€'])
    expect(bytes(text)).toBe(new TextEncoder().encode(text).length);
});

test('retry delays grow, vary, and are limited to five minutes', () => {
  expect(backoff(1, () => 0.999)).toBeCloseTo(999);
  expect(backoff(4, () => 0.5)).toBe(4_000);
  expect(backoff(40, () => 0.999)).toBeCloseTo(299_700);
  expect(backoff(3, () => 0)).toBe(100);
});

test('Retry-After is parsed in seconds and as a date', () => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  expect(retryAfter('7', now)).toBe(7_000);
  expect([retryAfter('99999999', now), retryAfter('Thu, 01 Jan 2099 00:00:00 GMT', now)]).toEqual([
    3_600_000, 3_600_000,
  ]);
  expect(retryAfter('Thu, 01 Jan 2026 00:00:30 GMT', now)).toBe(30_000);
  for (const nonsense of [null, '', 'soon', 'Thu, 01 Jan 2025 00:00:30 GMT'])
    expect(retryAfter(nonsense, now)).toBeUndefined();
});

test('options have defaults, and errors name the invalid option', () => {
  const given = { projectId: 'p', apiKey: 'pk_live_1' };
  expect(settings(given)).toMatchObject({
    apiUrl: 'http://localhost:8080/api/v1',
    flushAt: 20,
    flushIntervalSeconds: 30,
    debug: false,
    autoTrackScreens: true,
    autoTrackLifecycle: true,
  });
  for (const url of ['https://x.example', 'https://x.example/', 'https://x.example/api/v1/']) {
    expect(settings({ ...given, apiUrl: url }).apiUrl).toBe('https://x.example/api/v1');
  }
  expect(settings({ ...given, flushAt: 5_000 }).flushAt).toBe(100);
  expect(settings({ ...given, flushAt: -1, flushIntervalSeconds: NaN })).toMatchObject({
    flushAt: 20,
    flushIntervalSeconds: 30,
  });
  expect(() => settings({ ...given, apiKey: 'sk_live_1' })).toThrow(/secret key/);
  expect(() => settings({ ...given, apiKey: '' })).toThrow(/apiKey/);
  expect(() => settings({ ...given, projectId: undefined as never })).toThrow(/projectId/);
  expect(() => settings(undefined as never)).toThrow(/projectId/);
});
