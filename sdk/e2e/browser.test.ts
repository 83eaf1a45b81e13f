import type { Page } from 'playwright-core';
import { expect, test, vi } from 'vitest';
import type { Rekindle } from '../packages/web/src/index';
import { type Event, fixture, quiet, waited } from './fixture';
import { loaded } from './site';

declare const rekindle: Rekindle;

const here = fixture();
let users = 0;
const newUserId = () => `e2e-${Date.now().toString(36)}-${users++}`;

test('the example of the README tracks and identifies a new user, who is returned by GET /users', async () => {
  expect(await here.users('ada')).toEqual([]);
  const page = await here.context.newPage();
  await page.goto(`${here.site.origin}/readme`);
  await loaded(page);
  const anonymous = await page.evaluate(() => rekindle.getAnonymousId());
  await page.close({ runBeforeUnload: true });
  const found = await here.recorded('ada', 3);
  expect(found.map((event) => event.eventName)).toEqual(
    expect.arrayContaining(['app_opened', 'screen_viewed', 'trial_started']),
  );
  expect(found.find((event) => event.eventName === 'trial_started')).toMatchObject({
    userId: expect.anything() as unknown,
    anonymousId: anonymous,
    properties: { plan: 'free' },
  });
  expect(await here.users('ada')).toMatchObject([{ externalId: 'ada', email: 'ada@example.com' }]);
});

test('with a script tag a user is recorded with their events before the login', async () => {
  const user = newUserId();
  const page = await here.open();
  const anonymous = await page.evaluate((user) => {
    rekindle.track('browsed', { at: 'shoes' });
    rekindle.identify(user, { email: `${user}@example.com`, name: 'Ada', plan: 'free' });
    rekindle.setUserProperties({ plan: 'pro' });
    rekindle.productViewed({ productId: '1', price: 9.5 });
    return rekindle.getAnonymousId();
  }, user);
  await page.evaluate(() => rekindle.flush());
  const found = await here.recorded(user, 4);
  expect(found.map((event) => event.eventName).toSorted()).toEqual([
    'app_opened',
    'browsed',
    'product_viewed',
    'screen_viewed',
  ]);
  expect(found.find((event) => event.eventName === 'browsed')!.anonymousId).toBe(anonymous);
  const users = await here.users(user);
  expect(users).toHaveLength(1);
  expect(users[0]).toMatchObject({
    externalId: user,
    email: `${user}@example.com`,
    name: 'Ada',
    properties: { plan: 'pro' },
  });
});

test('the script served by the product uses the product as its API', async () => {
  const user = newUserId();
  const { origin } = new URL(here.product.url);
  const page = await here.context.newPage();
  await page.goto(`${here.site.origin}/bare`);
  const { files } = (await (await fetch(`${origin}/sdk/v1/integrity.json`)).json()) as {
    files: Record<string, { path: string; integrity: string }>;
  };
  const script = files['web.js']!;
  await page.addScriptTag({ url: `${origin}/sdk/v1/web.js` });
  // Loads it again: the first instance stays.
  await page.evaluate(() => rekindle.track('first instance'));
  await page.evaluate(
    async ([src, integrity]) => {
      const tag = Object.assign(document.createElement('script'), { src, integrity, crossOrigin: 'anonymous' });
      await new Promise((done, failed) => {
        tag.addEventListener('load', done);
        tag.addEventListener('error', failed);
        document.head.append(tag);
      });
    },
    [origin + script.path, script.integrity] as const,
  );
  await page.evaluate(
    async ([projectId, apiKey, user]) => {
      rekindle.init({ projectId, apiKey, autoTrackLifecycle: false, autoTrackScreens: false });
      rekindle.identify(user);
      rekindle.track('served');
      await rekindle.flush();
    },
    [here.product.projectId, here.product.publicKey, user] as const,
  );
  expect((await here.recorded(user, 2)).map((event) => event.eventName).toSorted()).toEqual([
    'first instance',
    'served',
  ]);
});

test('every released script pinned by its hash is served and runs', async () => {
  interface Release {
    version: string;
    files: Record<string, { path: string; integrity: string }>;
  }
  const { versions } = (await (await fetch(`${here.site.api}/sdk/v1/integrity.json`)).json()) as {
    versions: Record<string, Release>;
  };
  expect(Object.keys(versions).length).toBeGreaterThan(1);
  for (const { files } of Object.values(versions)) {
    const { path, integrity } = files['web.js']!;
    const page = await here.context.newPage();
    await page.goto(`${here.site.origin}/pinned?path=${path}&integrity=${encodeURIComponent(integrity)}`);
    await loaded(page);
    const other = `sha384-${'A'.repeat(64)}`;
    await page.goto(`${here.site.origin}/pinned?path=${path}&integrity=${encodeURIComponent(other)}`);
    expect(await page.evaluate(() => 'rekindle' in globalThis)).toBe(false);
    await page.close();
  }
});

test('calls made before the script is loaded are recorded with the time of the call', async () => {
  const user = newUserId();
  let called = 0;
  const page = await here.context.newPage();
  await page.route('**/sdk/v1/web.js', async (route) => {
    called = await page.evaluate((user) => {
      rekindle.identify(user);
      rekindle.track('early');
      return Date.now();
    }, user);
    await route.continue();
  });
  await page.goto(`${here.site.origin}/shop?with=${encodeURIComponent(JSON.stringify(quiet))}`);
  await loaded(page);
  await page.evaluate(() => rekindle.flush());
  expect((await here.recorded(user, 1)).map((event) => event.eventName)).toEqual(['early']);
  const sent = here.site.requests.flatMap(({ body }) =>
    body ? (JSON.parse(body) as { batch: Array<{ timestamp: string }> }).batch : [],
  );
  expect(sent).toHaveLength(2);
  for (const { timestamp } of sent) expect(Date.parse(timestamp)).toBeLessThanOrEqual(called);
});

test('a page that is closed immediately loses nothing', async () => {
  const user = newUserId();
  const page = await here.open(quiet);
  await page.evaluate((user) => {
    rekindle.identify(user);
    rekindle.track('before closing');
  }, user);
  await page.close({ runBeforeUnload: true });
  await here.recorded(user, 1);
});

test('events of a page killed while sending are sent by the next page, once', async () => {
  const user = newUserId();
  here.site.action = () => ({ kind: 'cut', after: true });
  const page = await here.open(quiet);
  await page.evaluate((user) => {
    rekindle.identify(user);
    for (let i = 0; i < 30; i++) rekindle.track('step', { i });
  }, user);
  await vi.waitFor(() => expect(here.site.requests.some((request) => request.status === 'cut')).toBe(true), waited);
  await page.goto('about:blank');
  await page.close();
  here.site.action = () => ({ kind: 'forward' });
  const next = await here.open({ ...quiet, flushIntervalSeconds: 1 });
  await next.waitForFunction(() => Object.keys(localStorage).length === 1);
  const steps = (await here.recorded(user, 30)).map((event) => event.properties.i as number);
  expect(steps.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, i) => i));
});

test('two tabs share the user, and another tab takes over the queue of a closed one', async () => {
  const user = newUserId();
  const first = await here.open(quiet);
  const second = await here.open(quiet);
  await first.evaluate((user) => rekindle.identify(user), user);
  await second.waitForFunction((user) => rekindle.getUserId() === user, user);
  here.site.action = () => ({ kind: 'cut', after: false });
  await first.evaluate(() => rekindle.track('first instance'));
  // The second started before the first stored an item. A third finds it and waits until the first is closed.
  const third = await here.open({ ...quiet, flushIntervalSeconds: 1 });
  await first.close();
  here.site.action = () => ({ kind: 'forward' });
  await third.waitForFunction(() => Object.keys(localStorage).length === 1);
  expect(await here.recorded(user, 1)).toHaveLength(1);
  expect(await second.evaluate(() => rekindle.getUserId())).toBe(user);
});

test('events recorded offline are sent when the network is back', async () => {
  const user = newUserId();
  const page = await here.open(quiet);
  await here.context.setOffline(true);
  await page.evaluate(async (user) => {
    rekindle.identify(user);
    rekindle.track('offline');
    await rekindle.flush();
  }, user);
  await here.context.setOffline(false);
  await here.recorded(user, 1);
});

test('after 429 the page waits as long as required, also from another origin', async () => {
  const user = newUserId();
  let requests = 0;
  here.site.action = ({ method }) =>
    method === 'POST' && requests++ === 0
      ? { kind: 'respond', status: 429, headers: { 'retry-after': '2' } }
      : { kind: 'forward' };
  const page = await here.open(quiet);
  await page.evaluate(async (user) => {
    rekindle.identify(user);
    rekindle.track('throttled');
    await rekindle.flush();
  }, user);
  await here.recorded(user, 1);
  const [first, second] = here.site.requests.filter((request) => request.method === 'POST');
  expect(first!.status).toBe(429);
  expect(second!.at - first!.at).toBeGreaterThanOrEqual(1_950);
});

test('events are kept if a login page responds instead of the server, with any status', async () => {
  const user = newUserId();
  const statuses = [200, 302, 401, 403];
  here.site.action = ({ method }) => {
    const status = method === 'POST' ? statuses.shift() : undefined;
    return status ? { kind: 'respond', status, html: '<!doctype html><title>Sign in</title>' } : { kind: 'forward' };
  };
  const page = await here.open({ ...quiet, flushIntervalSeconds: 1 });
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(error.message));
  await page.evaluate((user) => {
    rekindle.identify(user);
    rekindle.track('captive portal');
    return rekindle.flush();
  }, user);
  expect((await here.recorded(user, 1)).map((event) => event.eventName)).toEqual(['captive portal']);
  expect([statuses, errors]).toEqual([[], []]);
});

test('after reset earlier events stay with the user, and later events have a new anonymous ID', async () => {
  const user = newUserId();
  const page = await here.open(quiet);
  const ids = await page.evaluate(async (user) => {
    rekindle.identify(user);
    rekindle.track('mine');
    const before = rekindle.getAnonymousId();
    await rekindle.reset();
    rekindle.track('not mine');
    await rekindle.flush();
    return [before, rekindle.getAnonymousId(), rekindle.getUserId()];
  }, user);
  expect(ids[0]).not.toBe(ids[1]);
  expect(ids[2]).toBeNull();
  expect((await here.recorded(user, 1)).map((event) => event.eventName)).toEqual(['mine']);
  const others = async () => (await here.product.get<{ events: Event[] }>('/events?event=not%20mine')).events;
  await vi.waitFor(async () => expect(await others()).toMatchObject([{ userId: null, anonymousId: ids[1] }]), waited);
});

test('events are recorded in a browser without storage', async () => {
  const user = newUserId();
  await here.context.addInitScript(() =>
    Object.defineProperty(window, 'localStorage', {
      get: () => {
        throw new DOMException('denied', 'SecurityError');
      },
    }),
  );
  const page = await here.open(quiet);
  await page.evaluate(async (user) => {
    rekindle.identify(user);
    rekindle.track('private');
    await rekindle.flush();
  }, user);
  await here.recorded(user, 1);
});

test('a strict content security policy needs this origin for the script and one for the API', async () => {
  const user = newUserId();
  here.site.headers = {
    'content-security-policy': `default-src 'none'; script-src 'self'; connect-src ${here.site.api}`,
  };
  const page = await here.context.newPage();
  const errors: string[] = [];
  page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
  await page.goto(`${here.site.origin}/shop?with=${encodeURIComponent('{}')}`);
  await loaded(page);
  await page.evaluate(async (user) => {
    rekindle.identify(user);
    rekindle.track('strict');
    await rekindle.flush();
  }, user);
  await here.recorded(user, 3);
  expect(errors.filter((text) => !text.includes('favicon'))).toEqual([]);
});

test('an opt-out in one of three tabs persists despite concurrent writes of the others', async () => {
  const rounds = 1_000;
  const tabs = await Promise.all([here.open(quiet), here.open(quiet), here.open(quiet)]);
  const lost: number[] = [];
  for (let round = 0; round < rounds; round++) {
    // Each round has its own project, and so empty storage.
    const options = { projectId: `round-${round}`, apiKey: 'pk_live_x', apiUrl: here.site.api, ...quiet };
    const init = (page: Page) =>
      page.evaluate((options) => {
        rekindle.dispose();
        rekindle.init(options);
      }, options);
    await Promise.all(tabs.slice(0, 2).map(init));
    await Promise.all([
      tabs[0]!.evaluate(() => rekindle.optOutTracking()),
      tabs[1]!.evaluate(() => rekindle.identify('ann')),
      init(tabs[2]!),
    ]);
    await Promise.all(tabs.map(init));
    const optedOut = () => Promise.all(tabs.map((page) => page.evaluate(() => rekindle.hasOptedOutTracking())));
    // Another tab's process sees writes with a delay. It never sees an opt-out that is lost.
    await vi
      .waitFor(async () => expect(await optedOut()).toEqual([true, true, true]), waited)
      .catch(() => lost.push(round));
  }
  expect(lost).toEqual([]);
}, 300_000);

test('screens are recorded when the address changes without loading', async () => {
  const user = newUserId();
  const page = await here.open({ autoTrackLifecycle: false });
  await page.evaluate(async (user) => {
    rekindle.identify(user);
    history.pushState({}, '', '/shoes');
    await new Promise((done) => setTimeout(done, 10));
    history.pushState({}, '', '/shoes#red');
    // After the SDK's check, which also runs in the task after the event.
    const back = () =>
      new Promise((done) => {
        addEventListener('popstate', () => setTimeout(done), { once: true });
        history.back();
      });
    await back();
    await back();
    await rekindle.flush();
  }, user);
  const screens = (await here.recorded(user, 3)).map((event) => event.properties.path);
  expect(screens.toSorted()).toEqual(['/shoes', '/shop', '/shop']);
});
