// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type Drop, Rekindle, type WebOptions } from '../src/index';

const options = {
  projectId: 'p',
  apiKey: 'pk_live_x',
  apiUrl: 'https://rk.example',
  autoTrackLifecycle: false,
  autoTrackScreens: false,
};
let sent: Array<{ url: string; items: Array<Record<string, unknown>> }> = [];
let page: Rekindle;

function start(change: Partial<WebOptions> = {}): Rekindle {
  page = new Rekindle();
  page.init({ ...options, ...change });
  return page;
}

beforeEach(() => {
  sent = [];
  localStorage.clear();
  vi.stubGlobal('fetch', async (url: string, init: { body?: string }) => {
    const { batch = [] } = JSON.parse(init.body ?? '{}') as { batch?: Array<Record<string, unknown>> };
    sent.push({ url, items: batch });
    return new Response(JSON.stringify({ success: true, processed: batch.length, errors: 0 }), { status: 202 });
  });
});

afterEach(() => {
  vi.useRealTimers();
  page?.dispose();
  vi.unstubAllGlobals();
});

const items = () => sent.flatMap((each) => each.items);

test('calls before init are kept in order', async () => {
  page = new Rekindle();
  page.identify('ada');
  page.track('early');
  page.orderCompleted({ orderId: '7', total: 3 });
  page.init(options);
  await page.flush();
  expect(items().map((item) => [item.type, item.event])).toEqual([
    ['identify', undefined],
    ['track', 'early'],
    ['track', 'order_completed'],
  ]);
  expect(sent[0]!.url).toBe('https://rk.example/api/v1/events/batch');
});

test('calls before init are recorded with the time and the properties of the call', async () => {
  const startTime = Date.UTC(2026, 0, 1);
  vi.useFakeTimers({ toFake: ['Date'], now: startTime });
  page = new Rekindle();
  const cart = { items: 1, ask: () => 1, self: {} };
  cart.self = cart;
  page.track('first', cart);
  cart.items = 2;
  vi.setSystemTime(startTime + 7_000);
  page.identify('ada', cart);
  vi.spyOn(console, 'debug').mockReturnValue();
  const warn = vi.spyOn(console, 'warn').mockReturnValue();
  for (const nonsense of [
    'text',
    [1],
    null,
    () => 1,
    {
      get boom() {
        throw new Error('no');
      },
    },
  ])
    page.track('nonsense', nonsense as never);
  vi.setSystemTime(startTime + 60_000);
  page.init({ ...options, autoTrackLifecycle: true, debug: true });
  page.track('now', { items: 3 });
  expect(warn.mock.calls.filter((args) => String(args).includes('not recorded'))).toHaveLength(5);
  await page.flush();
  const seconds = (item: Record<string, unknown>) => (Date.parse(String(item.timestamp)) - startTime) / 1_000;
  expect(
    items().map((item) => [item.event ?? item.type, seconds(item), (item.properties as { items?: number }).items]),
  ).toEqual([
    ['app_opened', 60, undefined],
    ['first', 0, 1],
    ['identify', 7, 2],
    ['now', 60, 3],
  ]);
  // A cycle is cut at its start, whether the call was kept or not.
  expect(items()[1]!.properties).toEqual({ items: 1, self: '[Circular]' });
});

test('a second init has no effect; a secret key and a missing key are rejected, in debug mode with an error', () => {
  const warn = vi.spyOn(console, 'warn').mockReturnValue();
  const error = vi.spyOn(console, 'error').mockReturnValue();
  start();
  const id = page.getAnonymousId();
  page.init({ ...options, projectId: 'other' });
  expect(page.getAnonymousId()).toBe(id);
  expect(warn).toHaveBeenCalledOnce();
  for (const bad of [{ apiKey: 'sk_live_x' }, { apiKey: '' }, { projectId: 7 as never }]) {
    const other = new Rekindle();
    other.init({ ...options, ...bad });
    other.track('goes nowhere');
    expect(() => new Rekindle().init({ ...options, ...bad, debug: true })).toThrow(/init:/);
  }
  expect(error).toHaveBeenCalledTimes(6);
  expect(() => new Rekindle().init(undefined as never)).not.toThrow();
});

test('the anonymous ID returned before init is kept', () => {
  page = new Rekindle();
  const early = page.getAnonymousId();
  expect(early).toMatch(/^[0-9a-f-]{36}$/);
  page.init(options);
  expect(page.getAnonymousId()).toBe(early);
  page.dispose();
  expect(page.getAnonymousId()).toBe(early);
  // The stored ID is used.
  start();
  expect(page.getAnonymousId()).toBe(early);
});

test('after dispose calls with a result reject instead of waiting', async () => {
  const warn = vi.spyOn(console, 'warn').mockReturnValue();
  const never = new Rekindle();
  const waiting = never.inbox();
  never.dispose();
  await expect(waiting).rejects.toThrow('disposed');
  start();
  page.dispose();
  await page.flush();
  await page.reset();
  page.track('gone');
  await expect(page.inbox()).rejects.toThrow('disposed');
  expect(await page.push.optIn()).toBe(false);
  page.followInbox(() => {})();
  expect(warn).toHaveBeenCalled();
  expect(items()).toEqual([]);
  page.init(options);
  page.track('again');
  await page.flush();
  expect(items().map((item) => item.event)).toEqual(['again']);
});

test('the first 1,000 calls before init are kept, and the others are reported', async () => {
  const warn = vi.spyOn(console, 'warn').mockReturnValue();
  page = new Rekindle();
  for (let i = 0; i < 1_100; i++) page.track(`e${i}`);
  expect(warn).toHaveBeenCalledOnce();
  const drops: Drop[] = [];
  page.init({ ...options, onDrop: (drop) => void drops.push(drop) });
  expect(drops).toMatchObject([{ reason: 'not_initialized', count: 100 }]);
  for (let i = 0; i < 7; i++) page.track('more');
  expect([page.droppedItems(), page.droppedItems('not_initialized')]).toEqual([100, 100]);
  await page.flush();
  expect(items()).toHaveLength(1_007);
});

test('if screenName throws, the path is used', async () => {
  start({
    autoTrackScreens: true,
    screenName: () => {
      throw new Error('the host’s');
    },
  });
  await page.flush();
  expect(items()).toMatchObject([{ type: 'screen', name: location.pathname }]);
});

test('shop events have their standard names', async () => {
  start();
  page.productViewed({ productId: '1', price: 2 });
  page.addedToCart({ productId: '1', quantity: 2 });
  page.removedFromCart({ productId: '1' });
  page.checkoutStarted({ total: 4, items: [{ productId: '1' }] });
  page.orderCompleted({ orderId: '9', total: 4, currency: 'EUR' });
  await page.flush();
  expect(items().map((item) => item.event)).toEqual([
    'product_viewed',
    'added_to_cart',
    'removed_from_cart',
    'checkout_started',
    'order_completed',
  ]);
  expect(items()[4]!.properties).toEqual({ orderId: '9', total: 4, currency: 'EUR' });
});

test('each address is recorded once as a screen, however it changes, until dispose', async () => {
  const original = history.pushState;
  start({ autoTrackScreens: true, screenName: ({ pathname }) => `screen ${pathname}` });
  for (const address of ['/a', '/a', '/a#part', '/b?x=1']) {
    history.pushState({}, '', address);
    await new Promise((done) => setTimeout(done));
  }
  history.replaceState({}, '', '/c');
  await new Promise((done) => setTimeout(done));
  await page.flush();
  expect(
    items()
      .map((item) => item.name)
      .slice(-3),
  ).toEqual(['screen /a', 'screen /b', 'screen /c']);
  expect(items().at(-1)!.properties).toMatchObject({
    path: '/c',
    referrer: expect.stringContaining('/b?x=1') as string,
  });
  page.dispose();
  expect(history.pushState).toBe(original);
});

test('items are sent with a full, a forbidden and a damaged localStorage', async () => {
  localStorage.setItem('rekindle.p.queue.gone.0', 'not json');
  localStorage.setItem('rekindle.p.identity', '7');
  const set = vi.spyOn(Storage.prototype, 'setItem').mockImplementation(() => {
    throw new DOMException('full', 'QuotaExceededError');
  });
  start();
  page.track('a');
  await page.flush();
  expect(items()).toHaveLength(1);
  set.mockRestore();
  page.dispose();
  vi.stubGlobal('localStorage', undefined);
  start();
  page.track('b');
  await page.flush();
  expect(items().map((item) => item.event)).toEqual(['a', 'b']);
});

test('identity, opt-out and queue are read from a localStorage that is full when the page loads', async () => {
  localStorage.setItem('rekindle.p.identity', JSON.stringify({ anonymousId: 'anon', userId: 'ada' }));
  localStorage.setItem('rekindle.p.queue.gone.0', '[{"id":"1","type":"track","event":"kept"}]');
  const set = vi.spyOn(Storage.prototype, 'setItem').mockImplementation(() => {
    throw new DOMException('full', 'QuotaExceededError');
  });
  start();
  expect([page.getUserId(), page.getAnonymousId()]).toEqual(['ada', 'anon']);
  await page.flush();
  expect(items().map((item) => item.event)).toEqual(['kept']);
  page.dispose();
  localStorage.removeItem('rekindle.p.identity');
  set.mockRestore();
  localStorage.setItem('rekindle.p.identity', JSON.stringify({ anonymousId: 'anon', optedOut: true }));
  vi.spyOn(Storage.prototype, 'setItem').mockImplementation(() => {
    throw new DOMException('full', 'QuotaExceededError');
  });
  start();
  expect(page.hasOptedOutTracking()).toBe(true);
});

test('a login in another tab is applied in this one', () => {
  start();
  const key = 'rekindle.p.identity';
  localStorage.setItem(key, JSON.stringify({ anonymousId: 'other', userId: 'ada' }));
  window.dispatchEvent(new StorageEvent('storage', { key }));
  expect([page.getUserId(), page.getAnonymousId()]).toEqual(['ada', 'other']);
});

test('push calls return false in browsers without push', async () => {
  start({ push: { enabled: true } });
  expect(page.push.isEnabled()).toBe(false);
  expect(await page.push.requestPermission()).toBe(false);
  expect(await page.push.subscribe()).toBe(false);
  expect(await page.push.optIn()).toBe(false);
});

test('inbox and feed return items, or reject with the message of the server', async () => {
  const answers: Record<string, [number, unknown]> = {
    '/inbox?user_id=a%26b': [200, { items: [{ id: '1', title: 'Hi' }] }],
    '/feed': [403, { error: 'Forbidden', message: 'not with this key', status: 403 }],
  };
  start();
  expect(await page.inbox()).toEqual([]);
  page.identify('a&b', {}, { userHash: 'h' });
  vi.stubGlobal('fetch', async (url: string) => {
    const [status, body] = answers[url.replace('https://rk.example/api/v1', '')]!;
    return new Response(JSON.stringify(body), { status });
  });
  expect(await page.inbox()).toEqual([{ id: '1', title: 'Hi' }]);
  await expect(page.feed()).rejects.toThrow('not with this key');
});
