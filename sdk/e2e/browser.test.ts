import type { Page } from 'playwright-core';
import { expect, test, vi } from 'vitest';
import type { Rekindle } from '../packages/web/src/index';
import { type Event, fixture, quiet, waited } from './fixture';
import { loaded } from './site';

declare const rekindle: Rekindle;

const here = fixture();
let people = 0;
const person = () => `e2e-${Date.now().toString(36)}-${people++}`;

test('the README’s own lines, filled in: a new person’s page tracks, identifies and shows up in GET /users', async () => {
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

test('a script tag and more lines: the person is there, with what they did before they signed in', async () => {
  const user = person();
  const page = await here.open();
  const anonymous = await page.evaluate((user) => {
    rekindle.track('looked around', { at: 'shoes' });
    rekindle.identify(user, { email: `${user}@example.com`, name: 'Ada', plan: 'free' });
    rekindle.setUserProperties({ plan: 'pro' });
    rekindle.productViewed({ productId: '1', price: 9.5 });
    return rekindle.getAnonymousId();
  }, user);
  await page.evaluate(() => rekindle.flush());
  const found = await here.recorded(user, 4);
  expect(found.map((event) => event.eventName).toSorted()).toEqual([
    'app_opened',
    'looked around',
    'product_viewed',
    'screen_viewed',
  ]);
  expect(found.find((event) => event.eventName === 'looked around')!.anonymousId).toBe(anonymous);
  const users = await here.users(user);
  expect(users).toHaveLength(1);
  expect(users[0]).toMatchObject({
    externalId: user,
    email: `${user}@example.com`,
    name: 'Ada',
    properties: { plan: 'pro' },
  });
});

test('the script that the product serves finds the product by itself', async () => {
  const user = person();
  const { origin } = new URL(here.product.url);
  const page = await here.context.newPage();
  await page.goto(`${here.site.origin}/bare`);
  const { files } = (await (await fetch(`${origin}/sdk/v1/integrity.json`)).json()) as {
    files: Record<string, { path: string; integrity: string }>;
  };
  const script = files['web.js']!;
  await page.addScriptTag({ url: `${origin}/sdk/v1/web.js` });
  // Once more, as a page does that has it twice: the first one stays.
  await page.evaluate(() => rekindle.track('of the first'));
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
  expect((await here.recorded(user, 2)).map((event) => event.eventName).toSorted()).toEqual(['of the first', 'served']);
});

test('every released script that a page has pinned with its hash is served and runs', async () => {
  interface Listed {
    version: string;
    files: Record<string, { path: string; integrity: string }>;
  }
  const { versions } = (await (await fetch(`${here.site.api}/sdk/v1/integrity.json`)).json()) as {
    versions: Record<string, Listed>;
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

test('calls made before the script is there wait for it, and are recorded as of then', async () => {
  const user = person();
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
  const sent = here.site.passed.flatMap(({ body }) =>
    body ? (JSON.parse(body) as { batch: Array<{ timestamp: string }> }).batch : [],
  );
  expect(sent).toHaveLength(2);
  for (const { timestamp } of sent) expect(Date.parse(timestamp)).toBeLessThanOrEqual(called);
});

test('a page that is closed at once loses nothing', async () => {
  const user = person();
  const page = await here.open(quiet);
  await page.evaluate((user) => {
    rekindle.identify(user);
    rekindle.track('last words');
  }, user);
  await page.close({ runBeforeUnload: true });
  await here.recorded(user, 1);
});

test('a page killed in the middle of sending: the next one sends it, once', async () => {
  const user = person();
  here.site.weather = () => ({ kind: 'cut', after: true });
  const page = await here.open(quiet);
  await page.evaluate((user) => {
    rekindle.identify(user);
    for (let i = 0; i < 30; i++) rekindle.track('step', { i });
  }, user);
  await vi.waitFor(() => expect(here.site.passed.some((passed) => passed.status === 'cut')).toBe(true), waited);
  await page.goto('about:blank');
  await page.close();
  here.site.weather = () => ({ kind: 'through' });
  const next = await here.open({ ...quiet, flushIntervalSeconds: 1 });
  await next.waitForFunction(() => Object.keys(localStorage).length === 1);
  const steps = (await here.recorded(user, 30)).map((event) => event.properties.i as number);
  expect(steps.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, i) => i));
});

test('two tabs share the person, and one takes over what the other left', async () => {
  const user = person();
  const first = await here.open(quiet);
  const second = await here.open(quiet);
  await first.evaluate((user) => rekindle.identify(user), user);
  await second.waitForFunction((user) => rekindle.getUserId() === user, user);
  here.site.weather = () => ({ kind: 'cut', after: false });
  await first.evaluate(() => rekindle.track('of the first'));
  // The second was there before the first left something: a third sees it, and waits for the first to go.
  const third = await here.open({ ...quiet, flushIntervalSeconds: 1 });
  await first.close();
  here.site.weather = () => ({ kind: 'through' });
  await third.waitForFunction(() => Object.keys(localStorage).length === 1);
  expect(await here.recorded(user, 1)).toHaveLength(1);
  expect(await second.evaluate(() => rekindle.getUserId())).toBe(user);
});

test('offline for a while, and back', async () => {
  const user = person();
  const page = await here.open(quiet);
  await here.context.setOffline(true);
  await page.evaluate(async (user) => {
    rekindle.identify(user);
    rekindle.track('on the train');
    await rekindle.flush();
  }, user);
  await here.context.setOffline(false);
  await here.recorded(user, 1);
});

test('429 is waited out as long as it says, also from another origin', async () => {
  const user = person();
  let refused = 0;
  here.site.weather = ({ method }) =>
    method === 'POST' && refused++ === 0
      ? { kind: 'refuse', status: 429, headers: { 'retry-after': '2' } }
      : { kind: 'through' };
  const page = await here.open(quiet);
  await page.evaluate(async (user) => {
    rekindle.identify(user);
    rekindle.track('patient');
    await rekindle.flush();
  }, user);
  await here.recorded(user, 1);
  const [first, second] = here.site.passed.filter((passed) => passed.method === 'POST');
  expect(first!.status).toBe(429);
  expect(second!.at - first!.at).toBeGreaterThanOrEqual(1_950);
});

test('a login page in the way has taken nothing, whatever it answers', async () => {
  const user = person();
  const answers = [200, 302, 401, 403];
  here.site.weather = ({ method }) => {
    const status = method === 'POST' ? answers.shift() : undefined;
    return status ? { kind: 'refuse', status, html: '<!doctype html><title>Sign in</title>' } : { kind: 'through' };
  };
  const page = await here.open({ ...quiet, flushIntervalSeconds: 1 });
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(error.message));
  await page.evaluate((user) => {
    rekindle.identify(user);
    rekindle.track('in a hotel');
    return rekindle.flush();
  }, user);
  expect((await here.recorded(user, 1)).map((event) => event.eventName)).toEqual(['in a hotel']);
  expect([answers, errors]).toEqual([[], []]);
});

test('reset: what was done is still theirs, and what follows is somebody else’s', async () => {
  const user = person();
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

test('a browser without storage', async () => {
  const user = person();
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

test('a strict policy needs this origin for the script and one for the API, and nothing is reported', async () => {
  const user = person();
  here.site.headers = {
    'content-security-policy': `default-src 'none'; script-src 'self'; connect-src ${here.site.api}`,
  };
  const page = await here.context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  await page.goto(`${here.site.origin}/shop?with=${encodeURIComponent('{}')}`);
  await loaded(page);
  await page.evaluate(async (user) => {
    rekindle.identify(user);
    rekindle.track('strict');
    await rekindle.flush();
  }, user);
  await here.recorded(user, 3);
  expect(complaints.filter((text) => !text.includes('favicon'))).toEqual([]);
});

test('an opt-out in one of three tabs outlasts what the others write at that time', async () => {
  const rounds = 1_000;
  const tabs = await Promise.all([here.open(quiet), here.open(quiet), here.open(quiet)]);
  const lost: number[] = [];
  for (let round = 0; round < rounds; round++) {
    // A project of its own for each round: storage without a past.
    const options = { projectId: `round-${round}`, apiKey: 'pk_live_x', apiUrl: here.site.api, ...quiet };
    const begin = (page: Page) =>
      page.evaluate((options) => {
        rekindle.dispose();
        rekindle.init(options);
      }, options);
    await Promise.all(tabs.slice(0, 2).map(begin));
    await Promise.all([
      tabs[0]!.evaluate(() => rekindle.optOutTracking()),
      tabs[1]!.evaluate(() => rekindle.identify('ann')),
      begin(tabs[2]!),
    ]);
    await Promise.all(tabs.map(begin));
    const out = () => Promise.all(tabs.map((page) => page.evaluate(() => rekindle.hasOptedOutTracking())));
    // The process of another tab sees what is written a moment later. An opt-out that is lost it never sees.
    await vi.waitFor(async () => expect(await out()).toEqual([true, true, true]), waited).catch(() => lost.push(round));
  }
  expect(lost).toEqual([]);
}, 300_000);

test('screens follow the address, without loading', async () => {
  const user = person();
  const page = await here.open({ autoTrackLifecycle: false });
  await page.evaluate(async (user) => {
    rekindle.identify(user);
    history.pushState({}, '', '/shoes');
    await new Promise((done) => setTimeout(done, 10));
    history.pushState({}, '', '/shoes#red');
    // Behind the SDK's own look, which comes a turn after the event, too.
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
