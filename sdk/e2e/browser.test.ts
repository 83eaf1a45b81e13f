import { type Browser, type BrowserContext, type Page, chromium } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import type { Rekindle } from '../packages/web/src/index';
import { type Product, startProduct } from './product';
import { Site, loaded } from './site';

declare const rekindle: Rekindle;

let product: Product;
let site: Site;
let browser: Browser;
let context: BrowserContext;

beforeAll(async () => {
  product = await startProduct();
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
}, 180_000);

afterAll(async () => {
  await browser?.close();
  product?.stop();
}, 60_000);

beforeEach(async () => {
  site = await Site.open(product);
  context = await browser.newContext();
});

afterEach(async () => {
  await context.close();
  site.close();
});

interface Event {
  id: string;
  eventName: string;
  userId: string | null;
  anonymousId: string | null;
  properties: Record<string, unknown>;
}

/** A page with the script tag, begun with these options. */
async function open(options: object = {}, path = '/shop'): Promise<Page> {
  const page = await context.newPage();
  await page.goto(`${site.origin}${path}?with=${encodeURIComponent(JSON.stringify(options))}`);
  await loaded(page);
  return page;
}

const events = async (user: string): Promise<Event[]> => (await product.get<{ events: Event[] }>(`/events?user=${user}&limit=100`)).events;
const quiet = { autoTrackLifecycle: false, autoTrackScreens: false };
let people = 0;
const person = () => `e2e-${Date.now().toString(36)}-${people++}`;

/** Sends, and waits until the product has recorded so many of the person. */
async function recorded(user: string, count: number): Promise<Event[]> {
  return vi.waitFor(
    async () => {
      const found = await events(user);
      expect(found.length).toBeGreaterThanOrEqual(count);
      return found;
    },
    { timeout: 15_000, interval: 100 },
  );
}

test('a script tag and five lines: the person is there, with what they did before they signed in', async () => {
  const user = person();
  const page = await open();
  const anonymous = await page.evaluate((user) => {
    rekindle.track('looked around', { at: 'shoes' });
    rekindle.identify(user, { email: `${user}@example.com`, name: 'Ada', plan: 'free' });
    rekindle.setUserProperties({ plan: 'pro' });
    rekindle.productViewed({ productId: '1', price: 9.5 });
    return rekindle.getAnonymousId();
  }, user);
  await page.evaluate(() => rekindle.flush());
  const found = await recorded(user, 4);
  expect(found.map((event) => event.eventName).toSorted()).toEqual(['app_opened', 'looked around', 'product_viewed', 'screen_viewed']);
  expect(found.find((event) => event.eventName === 'looked around')!.anonymousId).toBe(anonymous);
  const { users } = await product.get<{ users: Array<Record<string, unknown>> }>(`/users?search=${user}`);
  expect(users).toHaveLength(1);
  expect(users[0]).toMatchObject({ externalId: user, email: `${user}@example.com`, name: 'Ada', properties: { plan: 'pro' } });
});

test('the script that the product serves finds the product by itself', async () => {
  const user = person();
  const { origin } = new URL(product.url);
  const page = await context.newPage();
  await page.goto(`${site.origin}/bare`);
  const { files } = (await (await fetch(`${origin}/sdk/v1/integrity.json`)).json()) as { files: Record<string, { path: string; integrity: string }> };
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
    [product.projectId, product.publicKey, user] as const,
  );
  expect((await recorded(user, 2)).map((event) => event.eventName).toSorted()).toEqual(['of the first', 'served']);
});

test('calls made before the script is there wait for it', async () => {
  const user = person();
  const page = await context.newPage();
  await page.route('**/sdk/v1/web.js', async (route) => {
    await page.evaluate((user) => {
      rekindle.identify(user);
      rekindle.track('early');
    }, user);
    await route.continue();
  });
  await page.goto(`${site.origin}/shop?with=${encodeURIComponent(JSON.stringify(quiet))}`);
  await loaded(page);
  await page.evaluate(() => rekindle.flush());
  expect((await recorded(user, 1)).map((event) => event.eventName)).toEqual(['early']);
});

test('a page that is closed at once loses nothing', async () => {
  const user = person();
  const page = await open(quiet);
  await page.evaluate((user) => {
    rekindle.identify(user);
    rekindle.track('last words');
  }, user);
  await page.close({ runBeforeUnload: true });
  await recorded(user, 1);
});

test('a page killed in the middle of sending: the next one sends it, once', async () => {
  const user = person();
  site.weather = () => ({ kind: 'cut', after: true });
  const page = await open(quiet);
  await page.evaluate((user) => {
    rekindle.identify(user);
    for (let i = 0; i < 30; i++) rekindle.track('step', { i });
  }, user);
  await vi.waitFor(() => expect(site.passed.some((passed) => passed.status === 'cut')).toBe(true), { timeout: 15_000 });
  await page.goto('about:blank');
  await page.close();
  site.weather = () => ({ kind: 'through' });
  const next = await open({ ...quiet, flushIntervalSeconds: 1 });
  await next.waitForFunction(() => Object.keys(localStorage).length === 1);
  const steps = (await recorded(user, 30)).map((event) => event.properties.i as number);
  expect(steps.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, i) => i));
});

test('two tabs share the person, and one takes over what the other left', async () => {
  const user = person();
  const first = await open(quiet);
  const second = await open(quiet);
  await first.evaluate((user) => rekindle.identify(user), user);
  await second.waitForFunction((user) => rekindle.getUserId() === user, user);
  site.weather = () => ({ kind: 'cut', after: false });
  await first.evaluate(() => rekindle.track('of the first'));
  // The second was there before the first left something: a third sees it, and waits for the first to go.
  const third = await open({ ...quiet, flushIntervalSeconds: 1 });
  await first.close();
  site.weather = () => ({ kind: 'through' });
  await third.waitForFunction(() => Object.keys(localStorage).length === 1);
  expect(await recorded(user, 1)).toHaveLength(1);
  expect(await second.evaluate(() => rekindle.getUserId())).toBe(user);
});

test('offline for a while, and back', async () => {
  const user = person();
  const page = await open(quiet);
  await context.setOffline(true);
  await page.evaluate(async (user) => {
    rekindle.identify(user);
    rekindle.track('on the train');
    await rekindle.flush();
  }, user);
  await context.setOffline(false);
  await recorded(user, 1);
});

test('429 is waited out as long as it says, also from another origin', async () => {
  const user = person();
  let refused = 0;
  site.weather = ({ method }) => (method === 'POST' && refused++ === 0 ? { kind: 'refuse', status: 429, headers: { 'retry-after': '2' } } : { kind: 'through' });
  const page = await open(quiet);
  await page.evaluate(async (user) => {
    rekindle.identify(user);
    rekindle.track('patient');
    await rekindle.flush();
  }, user);
  await recorded(user, 1);
  const [first, second] = site.passed.filter((passed) => passed.method === 'POST');
  expect(first!.status).toBe(429);
  expect(second!.at - first!.at).toBeGreaterThanOrEqual(1_950);
});

test('reset: what was done is still theirs, and what follows is somebody else’s', async () => {
  const user = person();
  const page = await open(quiet);
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
  expect((await recorded(user, 1)).map((event) => event.eventName)).toEqual(['mine']);
  const others = async () => (await product.get<{ events: Event[] }>('/events?event=not%20mine')).events;
  await vi.waitFor(async () => expect(await others()).toMatchObject([{ userId: null, anonymousId: ids[1] }]), { timeout: 15_000 });
});

test('a browser without storage', async () => {
  const user = person();
  await context.addInitScript(() => Object.defineProperty(window, 'localStorage', { get: () => { throw new DOMException('denied', 'SecurityError'); } }));
  const page = await open(quiet);
  await page.evaluate(async (user) => {
    rekindle.identify(user);
    rekindle.track('private');
    await rekindle.flush();
  }, user);
  await recorded(user, 1);
});

test('a strict policy needs this origin for the script and one for the API, and nothing is reported', async () => {
  const user = person();
  site.headers = { 'content-security-policy': `default-src 'none'; script-src 'self'; connect-src ${site.api}` };
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  await page.goto(`${site.origin}/shop?with=${encodeURIComponent('{}')}`);
  await loaded(page);
  await page.evaluate(async (user) => {
    rekindle.identify(user);
    rekindle.track('strict');
    await rekindle.flush();
  }, user);
  await recorded(user, 3);
  expect(complaints.filter((text) => !text.includes('favicon'))).toEqual([]);
});

test('screens follow the address, without loading', async () => {
  const user = person();
  const page = await open({ autoTrackLifecycle: false });
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
  const screens = (await recorded(user, 3)).map((event) => event.properties.path);
  expect(screens.toSorted()).toEqual(['/shoes', '/shop', '/shop']);
});
