import { expect, test, vi } from 'vitest';
import type { InboxChange, Rekindle } from '../packages/web/src/index';
import { fixture, quiet, waited } from './fixture';
import { loaded } from './site';

declare const rekindle: Rekindle;

const here = fixture();

test('the example of a plain page tracks and identifies a user, who is returned by GET /users', async () => {
  const page = await here.context.newPage();
  await page.goto(`${here.site.origin}/example`);
  await page.click('#buy');
  await page.close({ runBeforeUnload: true });
  await vi.waitFor(async () => {
    expect(await here.users('ada@example.com')).toMatchObject([
      { externalId: 'ada', email: 'ada@example.com', name: 'Ada' },
    ]);
    const names = (await here.events('ada')).map((event) => event.eventName);
    expect(names).toEqual(expect.arrayContaining(['page_read', 'order_completed', 'screen_viewed', 'app_opened']));
  }, waited);
});

test('every operation is recorded by the product', async () => {
  const page = await here.open(quiet);
  const results = await page.evaluate(async () => {
    rekindle.track('ops early', { n: 1 });
    const anonymous = [rekindle.getUserId(), rekindle.getAnonymousId()];
    rekindle.identify('ops', { name: 'Ops', plan: 'free' });
    rekindle.screen('Checkout', { step: 2 });
    rekindle.setUserProperties({ plan: 'pro' });
    rekindle.productViewed({ productId: 'p', price: 2.5 });
    rekindle.addedToCart({ productId: 'p', quantity: 2 });
    rekindle.removedFromCart({ productId: 'p', quantity: 1 });
    rekindle.checkoutStarted({ total: 2.5, currency: 'EUR' });
    rekindle.orderCompleted({ orderId: 'o', total: 2.5 });
    await rekindle.flush();
    rekindle.optOutTracking();
    const out = rekindle.hasOptedOutTracking();
    rekindle.track('not wanted');
    rekindle.optInTracking();
    rekindle.track('wanted again');
    const known = [rekindle.getUserId(), rekindle.getAnonymousId()];
    await rekindle.reset();
    const after = [rekindle.getUserId(), rekindle.getAnonymousId()];
    const dropped = rekindle.droppedItems();
    rekindle.dispose();
    rekindle.track('disposed');
    return { anonymous, out, known, after, dropped };
  });
  expect(results.anonymous[0]).toBeNull();
  expect(results.known).toEqual(['ops', results.anonymous[1]]);
  expect(results.after[0]).toBeNull();
  expect(results.after[1]).not.toBe(results.anonymous[1]);
  expect([results.out, results.dropped]).toEqual([true, 0]);
  const expected: Array<[string, Record<string, unknown>]> = [
    ['added_to_cart', { productId: 'p', quantity: 2 }],
    ['checkout_started', { total: 2.5, currency: 'EUR' }],
    ['ops early', { n: 1 }],
    ['order_completed', { orderId: 'o', total: 2.5 }],
    ['product_viewed', { productId: 'p', price: 2.5 }],
    ['removed_from_cart', { productId: 'p', quantity: 1 }],
    ['screen_viewed', { step: 2 }],
    ['wanted again', {}],
  ];
  await vi.waitFor(async () => {
    const events = (await here.events('ops')).toSorted((a, b) => a.eventName.localeCompare(b.eventName));
    expect(events.map((event) => event.eventName)).toEqual(expected.map(([name]) => name));
    expected.forEach(([, properties], i) => expect(events[i]!.properties).toMatchObject(properties));
    expect(await here.users('ops')).toMatchObject([{ externalId: 'ops', name: 'Ops', properties: { plan: 'pro' } }]);
  }, waited);
});

test('inbox changes, read messages and news are returned', async () => {
  await here.product.post('/news', { title: 'Spring', body: 'Has come', published: true });
  const page = await here.open(quiet);
  const user = 'reader';
  const send = (title: string) =>
    here.product.post('/messages', { userId: user, channel: 'IN_APP', content: { title, body: 'Hello' } });
  await page.evaluate(
    ([user, userHash]) => {
      const changes: InboxChange[] = [];
      Object.assign(globalThis, { changes });
      rekindle.identify(user, { name: 'Reader' }, { userHash });
      rekindle.followInbox((change) => changes.push(change));
      return rekindle.flush();
    },
    [user, here.product.userHash(user)] as const,
  );
  const changes = () => page.evaluate(() => (globalThis as unknown as { changes: InboxChange[] }).changes);
  await vi.waitFor(async () => expect(await here.users(user)).toHaveLength(1), waited);
  await vi.waitFor(async () => expect(await changes()).toEqual([{ type: 'unread', unread: 0 }]), waited);
  await send('First');
  await vi.waitFor(async () => {
    expect((await changes()).slice(1)).toMatchObject([
      { type: 'message', item: { title: 'First', readAt: null } },
      { type: 'unread', unread: 1 },
    ]);
  }, waited);
  const read = await page.evaluate(async () => {
    const [first] = await rekindle.inbox();
    await rekindle.markRead(first!.id);
    return (await rekindle.inbox()).map(({ title, readAt }) => [title, readAt !== null]);
  });
  expect(read).toEqual([['First', true]]);
  await vi.waitFor(async () => expect((await changes()).at(-1)).toEqual({ type: 'unread', unread: 0 }), waited);
  expect(await page.evaluate(() => rekindle.feed())).toMatchObject([{ title: 'Spring', body: 'Has come' }]);
  // An unverified user can read nothing.
  await expect(
    page.evaluate(() => {
      rekindle.identify('reader2');
      return rekindle.inbox();
    }),
  ).rejects.toThrow('user_hash');
});

test('a first message received while the page is hidden is reported when it is visible again', async () => {
  const page = await here.open(quiet);
  const user = 'hidden-reader';
  await page.evaluate(
    ([user, userHash]) => {
      const changes: InboxChange[] = [];
      Object.assign(globalThis, { changes });
      rekindle.identify(user, {}, { userHash });
      rekindle.followInbox((change) => changes.push(change));
      return rekindle.flush();
    },
    [user, here.product.userHash(user)] as const,
  );
  const changes = () => page.evaluate(() => (globalThis as unknown as { changes: InboxChange[] }).changes);
  const setVisibility = (state: 'hidden' | 'visible') =>
    page.evaluate((state) => {
      Object.defineProperty(document, 'visibilityState', { configurable: true, value: state });
      document.dispatchEvent(new Event('visibilitychange'));
    }, state);
  await vi.waitFor(async () => expect(await here.users(user)).toHaveLength(1), waited);
  await vi.waitFor(async () => expect(await changes()).toEqual([{ type: 'unread', unread: 0 }]), waited);
  await setVisibility('hidden');
  await here.product.post('/messages', {
    userId: user,
    channel: 'IN_APP',
    content: { title: 'Meanwhile', body: 'Hello' },
  });
  await vi.waitFor(async () => expect(await page.evaluate(() => rekindle.inbox())).toHaveLength(1), waited);
  expect(await changes()).toHaveLength(1);
  await setVisibility('visible');
  await vi.waitFor(
    async () =>
      expect((await changes()).slice(1)).toMatchObject([
        { type: 'message', item: { title: 'Meanwhile' } },
        { type: 'unread', unread: 1 },
      ]),
    waited,
  );
});

test('a page reloaded while sending records each event once', async () => {
  here.site.action = () => ({ kind: 'cut', after: true });
  const page = await here.open({ ...quiet, flushIntervalSeconds: 1 });
  await page.evaluate(() => {
    rekindle.identify('reloaded');
    for (let n = 0; n < 40; n++) rekindle.track('step', { n });
  });
  await vi.waitFor(() => expect(here.site.requests.some(({ status }) => status === 'cut')).toBe(true), waited);
  await page.reload();
  await loaded(page);
  here.site.action = () => ({ kind: 'forward' });
  await page.waitForFunction(() => Object.keys(localStorage).length === 1, undefined, { timeout: 30_000 });
  await vi.waitFor(async () => {
    const steps = (await here.events('reloaded')).map((event) => Number(event.properties.n));
    expect(steps.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, n) => n));
  }, waited);
});

test('events are recorded with the correct time if the clock is a year wrong', async () => {
  for (const [user, days] of [
    ['fast-clock', 400],
    ['slow-clock', -400],
  ] as const) {
    await here.context.addInitScript((shift) => {
      const real = Date.now;
      Date.now = () => real() + shift;
    }, days * 86_400_000);
    const page = await here.open(quiet);
    await page.evaluate((user) => {
      rekindle.identify(user);
      rekindle.track('tick');
      return rekindle.flush();
    }, user);
    await vi.waitFor(async () => {
      const [tick] = await here.events(user);
      expect(Math.abs(Date.parse(tick!.timestamp) - Date.now())).toBeLessThan(60_000);
    }, waited);
    await here.context.close();
    here.context = await here.browser.newContext();
  }
});

test('invalid calls affect neither the page nor other events', async () => {
  const page = await here.open(quiet);
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(error.message));
  await page.evaluate(() => {
    rekindle.identify('careless');
    const cyclic: Record<string, unknown> = { ok: 1 };
    cyclic.me = cyclic;
    rekindle.track('cyclic', cyclic);
    rekindle.track('function', { f: () => 1, ok: 1 });
    rekindle.track('large', { text: 'x'.repeat(1_000_000) });
    rekindle.track(7 as never);
    rekindle.track(undefined as never, 'text' as never);
    rekindle.identify({} as never);
    rekindle.init({ projectId: 'other', apiKey: 'sk_live_x' });
    for (const size of [500_000, 5_000, 50, 1]) {
      try {
        for (let i = 0; ; i++) localStorage.setItem(`host${size}.${i}`, 'x'.repeat(size));
      } catch {
        // The storage is full for this size.
      }
    }
    for (let i = 0; i < 30; i++) rekindle.track('neighbour', { i });
    return rekindle.flush();
  });
  await vi.waitFor(async () => {
    const names = (await here.events('careless')).map((event) => event.eventName);
    expect(names.toSorted()).toEqual(['cyclic', 'function', ...Array.from({ length: 30 }, () => 'neighbour')]);
  }, waited);
  await page.reload();
  await loaded(page);
  expect(await page.evaluate(() => rekindle.getUserId())).toBe('careless');
  expect(errors).toEqual([]);
});

test('a strict content security policy needs one origin if the product serves the script', async () => {
  here.site.headers = {
    'content-security-policy': `default-src 'none'; script-src ${here.site.api}; connect-src ${here.site.api}`,
  };
  const page = await here.context.newPage();
  const errors: string[] = [];
  page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
  await page.goto(`${here.site.origin}/served`);
  await loaded(page);
  await page.evaluate(
    ([projectId, apiKey]) => {
      // The address of the API is that of the script.
      rekindle.init({ projectId, apiKey });
      rekindle.identify('strict');
      return rekindle.flush();
    },
    [here.product.projectId, here.product.publicKey] as const,
  );
  await vi.waitFor(async () => expect((await here.events('strict')).length).toBe(2), waited);
  expect(errors.filter((text) => !text.includes('favicon'))).toEqual([]);
});
