import { expect, test, vi } from 'vitest';
import type { InboxChange, Rekindle } from '../packages/web/src/index';
import { fixture, quiet, waited } from './fixture';
import { loaded } from './site';

declare const rekindle: Rekindle;

const here = fixture();

test('the example of a plain page, filled in: it tracks, identifies and shows up in GET /users', async () => {
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

test('every operation, as the product has it', async () => {
  const page = await here.open(quiet);
  const answers = await page.evaluate(async () => {
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
  expect(answers.anonymous[0]).toBeNull();
  expect(answers.known).toEqual(['ops', answers.anonymous[1]]);
  expect(answers.after[0]).toBeNull();
  expect(answers.after[1]).not.toBe(answers.anonymous[1]);
  expect([answers.out, answers.dropped]).toEqual([true, 0]);
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

test('the inbox as it fills, what was read, and the news', async () => {
  await here.product.post('/news', { title: 'Spring', body: 'Has come', published: true });
  const page = await here.open(quiet);
  const user = 'reader';
  const send = (title: string) =>
    here.product.post('/messages', { userId: user, channel: 'IN_APP', content: { title, body: 'Hello' } });
  await page.evaluate(
    ([user, userHash]) => {
      const heard: InboxChange[] = [];
      Object.assign(globalThis, { heard });
      rekindle.identify(user, { name: 'Reader' }, { userHash });
      rekindle.followInbox((change) => heard.push(change));
      return rekindle.flush();
    },
    [user, here.product.userHash(user)] as const,
  );
  const heard = () => page.evaluate(() => (globalThis as unknown as { heard: InboxChange[] }).heard);
  await vi.waitFor(async () => expect(await here.users(user)).toHaveLength(1), waited);
  await vi.waitFor(async () => expect(await heard()).toEqual([{ type: 'unread', unread: 0 }]), waited);
  await send('First');
  await vi.waitFor(async () => {
    expect((await heard()).slice(1)).toMatchObject([
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
  await vi.waitFor(async () => expect((await heard()).at(-1)).toEqual({ type: 'unread', unread: 0 }), waited);
  expect(await page.evaluate(() => rekindle.feed())).toMatchObject([{ title: 'Spring', body: 'Has come' }]);
  // Somebody whom nobody has proven reads nothing.
  await expect(
    page.evaluate(() => {
      rekindle.identify('reader2');
      return rekindle.inbox();
    }),
  ).rejects.toThrow('user_hash');
});

test('a first message that comes while the page is hidden is told when it is seen again', async () => {
  const page = await here.open(quiet);
  const user = 'hidden-reader';
  await page.evaluate(
    ([user, userHash]) => {
      const heard: InboxChange[] = [];
      Object.assign(globalThis, { heard });
      rekindle.identify(user, {}, { userHash });
      rekindle.followInbox((change) => heard.push(change));
      return rekindle.flush();
    },
    [user, here.product.userHash(user)] as const,
  );
  const heard = () => page.evaluate(() => (globalThis as unknown as { heard: InboxChange[] }).heard);
  const turn = (state: 'hidden' | 'visible') =>
    page.evaluate((state) => {
      Object.defineProperty(document, 'visibilityState', { configurable: true, value: state });
      document.dispatchEvent(new Event('visibilitychange'));
    }, state);
  await vi.waitFor(async () => expect(await here.users(user)).toHaveLength(1), waited);
  await vi.waitFor(async () => expect(await heard()).toEqual([{ type: 'unread', unread: 0 }]), waited);
  await turn('hidden');
  await here.product.post('/messages', {
    userId: user,
    channel: 'IN_APP',
    content: { title: 'Meanwhile', body: 'Hello' },
  });
  await vi.waitFor(async () => expect(await page.evaluate(() => rekindle.inbox())).toHaveLength(1), waited);
  expect(await heard()).toHaveLength(1);
  await turn('visible');
  await vi.waitFor(
    async () =>
      expect((await heard()).slice(1)).toMatchObject([
        { type: 'message', item: { title: 'Meanwhile' } },
        { type: 'unread', unread: 1 },
      ]),
    waited,
  );
});

test('reloaded in the middle of sending: once each', async () => {
  here.site.weather = () => ({ kind: 'cut', after: true });
  const page = await here.open({ ...quiet, flushIntervalSeconds: 1 });
  await page.evaluate(() => {
    rekindle.identify('reloaded');
    for (let n = 0; n < 40; n++) rekindle.track('step', { n });
  });
  await vi.waitFor(() => expect(here.site.passed.some(({ status }) => status === 'cut')).toBe(true), waited);
  await page.reload();
  await loaded(page);
  here.site.weather = () => ({ kind: 'through' });
  await page.waitForFunction(() => Object.keys(localStorage).length === 1, undefined, { timeout: 30_000 });
  await vi.waitFor(async () => {
    const steps = (await here.events('reloaded')).map((event) => Number(event.properties.n));
    expect(steps.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, n) => n));
  }, waited);
});

test('a clock that is a year wrong: what happened now is recorded as of now', async () => {
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

test('what cannot be recorded costs the page nothing, and no neighbour', async () => {
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
        // No room for another of this size.
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

test('one origin in a strict policy is enough, where the product serves the script', async () => {
  here.site.headers = {
    'content-security-policy': `default-src 'none'; script-src ${here.site.api}; connect-src ${here.site.api}`,
  };
  const page = await here.context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  await page.goto(`${here.site.origin}/served`);
  await loaded(page);
  await page.evaluate(
    ([projectId, apiKey]) => {
      // Where the API is, it knows by where it came from.
      rekindle.init({ projectId, apiKey });
      rekindle.identify('strict');
      return rekindle.flush();
    },
    [here.product.projectId, here.product.publicKey] as const,
  );
  await vi.waitFor(async () => expect((await here.events('strict')).length).toBe(2), waited);
  expect(complaints.filter((text) => !text.includes('favicon'))).toEqual([]);
});
