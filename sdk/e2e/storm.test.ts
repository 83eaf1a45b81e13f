import type { Page } from 'playwright-core';
import { expect, test, vi } from 'vitest';
import type { Rekindle } from '../packages/web/src/index';
import { fixture, quiet } from './fixture';
import { type Weather, loaded } from './site';

declare const rekindle: Rekindle;

const EVENTS = 10_000;
/** Calls between two misfortunes. */
const STRETCH = 50;

const MISFORTUNES = ['offline', 'reloaded', 'closed', 'crashed'] as const;
const WEATHERS = {
  'lost on the way there': { kind: 'cut', after: false },
  'lost on the way back': { kind: 'cut', after: true },
  '503': { kind: 'refuse', status: 503 },
  '429': { kind: 'refuse', status: 429, headers: { 'retry-after': '1' } },
} as const satisfies Record<string, Weather>;

const here = fixture();

/** Numbers in [0, 1) that are the same for the same seed. */
function numbers(seed: number): () => number {
  return () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
}

/** What happens next: first each of them, then one or none, as the dice fall. Counts how often each has. */
class Fate<T extends string> {
  readonly happened: Record<T, number>;
  readonly #due: T[];

  constructor(
    private readonly kinds: readonly T[],
    private readonly share: number,
    private readonly dice: () => number,
  ) {
    this.happened = Object.fromEntries(kinds.map((kind) => [kind, 0])) as Record<T, number>;
    this.#due = [...kinds];
  }

  next(): T | undefined {
    const fallen = this.dice() / this.share;
    const next = this.#due.shift() ?? this.kinds[Math.floor(fallen * this.kinds.length)];
    if (next) this.happened[next]++;
    return next;
  }
}

const waits = (page: Page) => page.evaluate(() => Object.keys(localStorage).some((key) => key.includes('.queue.')));

test('10,000 events while the tab is closed, reloaded, crashed and offline at random: each is recorded exactly once', async () => {
  const seed = Number(process.env.E2E_SEED ?? 1);
  const random = numbers(seed);
  const misfortunes = new Fate(MISFORTUNES, 0.3, random);
  const weathers = new Fate(Object.keys(WEATHERS) as Array<keyof typeof WEATHERS>, 0.2, random);
  here.site.weather = ({ method }) => {
    const kind = method === 'POST' ? weathers.next() : undefined;
    return kind ? WEATHERS[kind] : { kind: 'through' };
  };
  const user = `storm-${seed}`;
  const begin = () => here.open({ ...quiet, flushIntervalSeconds: 1 });
  let page = await begin();
  await page.evaluate((user) => rekindle.identify(user), user);
  /** Misfortunes that met something that was not sent yet. */
  const hit = Object.fromEntries(MISFORTUNES.map((kind) => [kind, 0])) as Record<(typeof MISFORTUNES)[number], number>;
  for (let from = 0; from < EVENTS; from += STRETCH) {
    const misfortune = misfortunes.next();
    if (misfortune === 'offline') await here.context.setOffline(true);
    await page.evaluate(
      ([from, to]) => {
        for (let n = from!; n < to!; n++) rekindle.track('step', { n });
      },
      [from, from + STRETCH],
    );
    // Asked by itself: in the call above nothing can have been answered yet.
    if (misfortune && (await waits(page))) hit[misfortune]++;
    if (misfortune === 'offline') {
      await page.evaluate(() => rekindle.flush());
      expect(await waits(page), 'nothing gets through without a network').toBe(true);
      await here.context.setOffline(false);
    } else if (misfortune === 'reloaded') {
      await page.reload();
      await loaded(page);
    } else if (misfortune) {
      if (misfortune === 'crashed') {
        const gone = page.waitForEvent('crash');
        await page.goto('chrome://crash').catch(() => undefined);
        await gone;
      }
      await page.close({ runBeforeUnload: misfortune === 'closed' });
      page = await begin();
    }
    // What waits stays small, so that each misfortune meets something that is being sent.
    await page.waitForFunction(() => Object.keys(localStorage).length < 20, undefined, {
      polling: 50,
      timeout: 60_000,
    });
  }
  here.site.weather = () => ({ kind: 'through' });
  await page.waitForFunction(() => Object.keys(localStorage).length === 1, undefined, { timeout: 60_000 });
  for (const [kind, count] of Object.entries({ ...hit, ...weathers.happened })) expect(count, kind).toBeGreaterThan(0);
  // What the server was asked agrees with what befell it.
  const statuses = new Set(here.site.passed.filter(({ method }) => method === 'POST').map(({ status }) => status));
  for (const status of ['cut', 503, 429, 202] as const) expect(statuses).toContain(status);

  const steps = await vi.waitFor(
    async () => {
      const found = await all(user);
      expect(found.length).toBeGreaterThanOrEqual(EVENTS);
      return found;
    },
    { timeout: 60_000, interval: 1_000 },
  );
  expect(steps.toSorted((a, b) => a - b)).toEqual(Array.from({ length: EVENTS }, (_, n) => n));
}, 600_000);

/** The numbers of all steps that the product has of the person. */
async function all(user: string): Promise<number[]> {
  const steps: number[] = [];
  let cursor: string | null = null;
  do {
    const page: { events: Array<{ properties: { n: number } }>; nextCursor: string | null } = await here.product.get(
      `/events?event=step&user=${user}&limit=100${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`,
    );
    steps.push(...page.events.map((event) => event.properties.n));
    cursor = page.nextCursor;
  } while (cursor);
  return steps;
}
