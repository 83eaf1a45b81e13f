// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Rekindle } from '@rekindle/web';

const page = window as unknown as { rekindle?: Rekindle };
const options = {
  projectId: 'p',
  apiKey: 'pk_live_x',
  apiUrl: 'https://rk.example',
  autoTrackLifecycle: false,
  autoTrackScreens: false,
};
let items: Array<{ type: string; event?: string; anonymous_id: string; timestamp: string }>;

beforeEach(() => {
  items = [];
  localStorage.clear();
  vi.resetModules();
  vi.stubGlobal(
    'XMLHttpRequest',
    class {
      open() {}
      setRequestHeader() {}
      send() {}
      abort() {}
    },
  );
  vi.stubGlobal('fetch', async (_: string, init: { body?: string }) => {
    const { batch = [] } = JSON.parse(init.body ?? '{}') as { batch?: typeof items };
    items.push(...batch);
    return new Response(JSON.stringify({ processed: batch.length, errors: 0 }));
  });
});

afterEach(() => {
  vi.useRealTimers();
  page.rekindle?.dispose();
  delete page.rekindle;
  vi.unstubAllGlobals();
});

const load = { stub: () => import('../src/stub'), script: () => import('../src/index') };

test('with the stub all calls work before the script is loaded, and their promises resolve after it', async () => {
  await load.stub();
  const early = page.rekindle!;
  expect([early.getUserId(), early.push.isEnabled(), early.hasOptedOutTracking(), early.droppedItems()]).toEqual([
    null,
    false,
    false,
    0,
  ]);
  const anonymous = early.getAnonymousId();
  expect(early.getAnonymousId()).toBe(anonymous);
  early.track('before init');
  early.init(options);
  early.identify('ada');
  early.orderCompleted({ orderId: '1' });
  const changes: unknown[] = [];
  const stop = early.followInbox((change) => changes.push(change));
  stop();
  const answers = [early.push.optOut(), early.push.subscribe(), early.flush()];
  await load.script();
  expect(await Promise.all(answers)).toEqual([true, false, undefined]);
  await page.rekindle!.flush();
  expect(page.rekindle).not.toBe(early);
  expect(items.map((item) => item.event ?? item.type)).toEqual(['before init', 'identify', 'order_completed']);
  expect(new Set(items.map((item) => item.anonymous_id))).toEqual(new Set([anonymous]));
  expect(page.rekindle!.getAnonymousId()).toBe(anonymous);
});

test('calls made before the script is loaded keep their time, before and after init', async () => {
  const start = Date.UTC(2026, 0, 1);
  vi.useFakeTimers({ toFake: ['Date'], now: start });
  await load.stub();
  const pass = (seconds: number) => vi.setSystemTime(Date.now() + seconds * 1_000);
  page.rekindle!.track('before init');
  pass(1);
  page.rekindle!.init({ ...options, autoTrackLifecycle: true });
  pass(2);
  page.rekindle!.orderCompleted({ orderId: '1' });
  void page.rekindle!.push.optOut();
  pass(4);
  await load.script();
  page.rekindle!.track('after');
  await page.rekindle!.flush();
  expect(items.map((item) => [item.event, (Date.parse(item.timestamp) - start) / 1_000])).toEqual([
    ['app_opened', 7],
    ['before init', 0],
    ['order_completed', 3],
    ['after', 7],
  ]);
});

test('calls of an older stub are recorded with the current time', async () => {
  const done = () => {};
  Object.assign(page, {
    rekindle: {
      calls: [
        ['track', ['early'], done],
        ['init', [options], done],
      ],
    },
  });
  await load.script();
  await page.rekindle!.flush();
  expect(items.map((item) => item.event)).toEqual(['early']);
  expect(Math.abs(Date.parse(items[0]!.timestamp) - Date.now())).toBeLessThan(10_000);
});

test('calls beyond the capacity of the stub are reported after the script is loaded', async () => {
  const warn = vi.spyOn(console, 'warn').mockReturnValue();
  const onDrop = vi.fn();
  await load.stub();
  page.rekindle!.init({ ...options, onDrop });
  for (let i = 0; i < 1_009; i++) page.rekindle!.track('step');
  await load.script();
  expect(onDrop.mock.calls).toMatchObject([[{ reason: 'not_initialized', count: 10 }]]);
  expect(warn).toHaveBeenCalledOnce();
});

test('if the script is blocked, flush and reset resolve, and at most 1,000 calls are kept', async () => {
  await load.stub();
  const stub = page.rekindle as unknown as Rekindle & { calls: unknown[] };
  await stub.flush();
  await stub.reset();
  for (let i = 0; i < 1_100; i++) stub.track(`e${i}`);
  expect(stub.calls).toHaveLength(1_000);
});

test('the stub has every call of the SDK', async () => {
  await load.stub();
  const early = page.rekindle!;
  delete page.rekindle;
  await load.script();
  const sdk = page.rekindle as unknown as Rekindle;
  const calls = new Set<string>();
  for (
    let level: object | null = sdk;
    level && level !== Object.prototype;
    level = Object.getPrototypeOf(level) as object | null
  ) {
    Object.getOwnPropertyNames(level).forEach((name) => calls.add(name));
  }
  const inner = ['constructor', 'lost', 'start', 'fresh', 'origin', 'with', 'ask', 'anonymousId', 'calledAt', 'replay'];
  expect([...calls].filter((name) => !inner.includes(name) && !(name in early))).toEqual([]);
  expect(Object.keys(sdk.push).filter((name) => !(name in early.push))).toEqual([]);
});

test('an init that throws in debug mode does not affect the calls after it', async () => {
  vi.spyOn(console, 'error').mockReturnValue();
  const reported = vi.fn();
  vi.stubGlobal('reportError', reported);
  await load.stub();
  page.rekindle!.init({ ...options, apiKey: 'sk_live_x', debug: true });
  page.rekindle!.track('kept');
  page.rekindle!.init(options);
  await load.script();
  await page.rekindle!.flush();
  expect(reported).toHaveBeenCalledOnce();
  expect(items.map((item) => item.event)).toEqual(['kept']);
});

test('if the script is loaded twice, the first instance stays', async () => {
  await load.script();
  const first = page.rekindle;
  vi.resetModules();
  await load.stub();
  await load.script();
  expect(page.rekindle).toBe(first);
});
