import { type Browser, chromium } from 'playwright-core';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { Rekindle } from '../packages/web/src/index';
import { type Product, startProduct } from './product';
import { Site, loaded } from './site';

declare const rekindle: Rekindle;

const EVENTS = 10_000;
/** Calls between two misfortunes. */
const STRETCH = 50;

let product: Product;
let browser: Browser;

beforeAll(async () => {
  product = await startProduct();
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
}, 180_000);

afterAll(async () => {
  await browser?.close();
  product?.stop();
}, 60_000);

/** Numbers in [0, 1) that are the same for the same seed. */
function numbers(seed: number): () => number {
  return () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
}

test('10,000 events while the tab is closed, reloaded, crashed and offline at random: each is recorded exactly once', async () => {
  const seed = Number(process.env.E2E_SEED ?? 1);
  const random = numbers(seed);
  const site = await Site.open(product);
  const context = await browser.newContext();
  site.weather = ({ method }) => {
    const dice = random();
    if (method !== 'POST' || dice > 0.2) return { kind: 'through' };
    if (dice < 0.06) return { kind: 'cut', after: true };
    if (dice < 0.12) return { kind: 'cut', after: false };
    return dice < 0.16 ? { kind: 'refuse', status: 503 } : { kind: 'refuse', status: 429, headers: { 'retry-after': '1' } };
  };
  const user = `storm-${seed}`;
  const address = `${site.origin}/shop?with=${encodeURIComponent(JSON.stringify({ autoTrackLifecycle: false, autoTrackScreens: false, flushIntervalSeconds: 1 }))}`;
  const begun = loaded;
  let page = await context.newPage();
  await page.goto(address);
  await begun(page);
  await page.evaluate((user) => rekindle.identify(user), user);
  const misfortunes = { closed: 0, reloaded: 0, crashed: 0, offline: 0 };
  for (let from = 0; from < EVENTS; from += STRETCH) {
    await page.evaluate(([from, to]) => {
      for (let n = from!; n < to!; n++) rekindle.track('step', { n });
    }, [from, from + STRETCH]);
    const dice = random();
    if (dice < 0.1) {
      misfortunes.offline++;
      await context.setOffline(true);
      await page.evaluate(() => rekindle.flush());
      await context.setOffline(false);
    } else if (dice < 0.2) {
      misfortunes.reloaded++;
      await page.reload();
      await begun(page);
    } else if (dice < 0.3) {
      if (dice < 0.27) {
        misfortunes.closed++;
        await page.close({ runBeforeUnload: true });
      } else {
        misfortunes.crashed++;
        const gone = page.waitForEvent('crash');
        await page.goto('chrome://crash').catch(() => undefined);
        await gone;
        await page.close();
      }
      page = await context.newPage();
      await page.goto(address);
      await begun(page);
    }
    // A queue holds 1,000: no more may be out than that.
    await page.waitForFunction(() => Object.keys(localStorage).length < 20, undefined, { polling: 50, timeout: 60_000 });
  }
  site.weather = () => ({ kind: 'through' });
  await page.waitForFunction(() => Object.keys(localStorage).length === 1, undefined, { timeout: 60_000 });
  expect(Math.min(...Object.values(misfortunes)), JSON.stringify(misfortunes)).toBeGreaterThan(0);

  const steps = await vi.waitFor(
    async () => {
      const found = await all(user);
      expect(found.length).toBeGreaterThanOrEqual(EVENTS);
      return found;
    },
    { timeout: 60_000, interval: 1_000 },
  );
  expect(steps.toSorted((a, b) => a - b)).toEqual(Array.from({ length: EVENTS }, (_, n) => n));
  await context.close();
  site.close();
}, 600_000);

/** The numbers of all steps that the product has of the person. */
async function all(user: string): Promise<number[]> {
  const steps: number[] = [];
  let cursor: string | null = null;
  do {
    const page: { events: Array<{ properties: { n: number } }>; nextCursor: string | null } = await product.get(
      `/events?event=step&user=${user}&limit=100${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`,
    );
    steps.push(...page.events.map((event) => event.properties.n));
    cursor = page.nextCursor;
  } while (cursor);
  return steps;
}
