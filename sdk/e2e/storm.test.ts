import type { Page } from 'playwright-core';
import { expect, test, vi } from 'vitest';
import type { Rekindle } from '../packages/web/src/index';
import { fixture, quiet } from './fixture';
import { type ProxyAction, loaded } from './site';

declare const rekindle: Rekindle;

const EVENTS = 10_000;
/** Calls between two disturbances. */
const CALLS_PER_STEP = 50;

const DISTURBANCES = ['offline', 'reloaded', 'closed', 'crashed'] as const;
const FAILURES = {
  'request lost': { kind: 'cut', after: false },
  'response lost': { kind: 'cut', after: true },
  '503': { kind: 'respond', status: 503 },
  '429': { kind: 'respond', status: 429, headers: { 'retry-after': '1' } },
} as const satisfies Record<string, ProxyAction>;

const here = fixture();

/** Returns numbers in [0, 1) that depend on the seed only. */
function numbers(seed: number): () => number {
  return () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
}

/** Selects what happens next: first each kind once, then randomly one or none. Counts each kind. */
class RandomSequence<T extends string> {
  readonly counts: Record<T, number>;
  readonly #pending: T[];

  constructor(
    private readonly kinds: readonly T[],
    private readonly probability: number,
    private readonly random: () => number,
  ) {
    this.counts = Object.fromEntries(kinds.map((kind) => [kind, 0])) as Record<T, number>;
    this.#pending = [...kinds];
  }

  next(): T | undefined {
    const value = this.random() / this.probability;
    const next = this.#pending.shift() ?? this.kinds[Math.floor(value * this.kinds.length)];
    if (next) this.counts[next]++;
    return next;
  }
}

const hasQueue = (page: Page) => page.evaluate(() => Object.keys(localStorage).some((key) => key.includes('.queue.')));

test('10,000 events are recorded exactly once while the tab is randomly closed, reloaded, crashed and offline', async () => {
  const seed = Number(process.env.E2E_SEED ?? 1);
  const random = numbers(seed);
  const disturbances = new RandomSequence(DISTURBANCES, 0.3, random);
  const failures = new RandomSequence(Object.keys(FAILURES) as Array<keyof typeof FAILURES>, 0.2, random);
  here.site.action = ({ method }) => {
    const kind = method === 'POST' ? failures.next() : undefined;
    return kind ? FAILURES[kind] : { kind: 'forward' };
  };
  const user = `storm-${seed}`;
  const open = () => here.open({ ...quiet, flushIntervalSeconds: 1 });
  let page = await open();
  await page.evaluate((user) => rekindle.identify(user), user);
  /** Number of disturbances while items were queued. */
  const hit = Object.fromEntries(DISTURBANCES.map((kind) => [kind, 0])) as Record<
    (typeof DISTURBANCES)[number],
    number
  >;
  for (let from = 0; from < EVENTS; from += CALLS_PER_STEP) {
    const disturbance = disturbances.next();
    if (disturbance === 'offline') await here.context.setOffline(true);
    await page.evaluate(
      ([from, to]) => {
        for (let n = from!; n < to!; n++) rekindle.track('step', { n });
      },
      [from, from + CALLS_PER_STEP],
    );
    // A separate call, because during the call above no request can have ended.
    if (disturbance && (await hasQueue(page))) hit[disturbance]++;
    if (disturbance === 'offline') {
      await page.evaluate(() => rekindle.flush());
      expect(await hasQueue(page), 'nothing is sent without a network').toBe(true);
      await here.context.setOffline(false);
    } else if (disturbance === 'reloaded') {
      await page.reload();
      await loaded(page);
    } else if (disturbance) {
      if (disturbance === 'crashed') {
        const gone = page.waitForEvent('crash');
        await page.goto('chrome://crash').catch(() => undefined);
        await gone;
      }
      await page.close({ runBeforeUnload: disturbance === 'closed' });
      page = await open();
    }
    // Keeps the queue small, so that each disturbance happens while items are being sent.
    await page.waitForFunction(() => Object.keys(localStorage).length < 20, undefined, {
      polling: 50,
      timeout: 60_000,
    });
  }
  here.site.action = () => ({ kind: 'forward' });
  await page.waitForFunction(() => Object.keys(localStorage).length === 1, undefined, { timeout: 60_000 });
  for (const [kind, count] of Object.entries({ ...hit, ...failures.counts })) expect(count, kind).toBeGreaterThan(0);
  // The requests show that all failures have happened.
  const statuses = new Set(here.site.requests.filter(({ method }) => method === 'POST').map(({ status }) => status));
  for (const status of ['cut', 503, 429, 202] as const) expect(statuses).toContain(status);

  const steps = await vi.waitFor(
    async () => {
      const found = await recordedSteps(user);
      expect(found.length).toBeGreaterThanOrEqual(EVENTS);
      return found;
    },
    { timeout: 60_000, interval: 1_000 },
  );
  expect(steps.toSorted((a, b) => a - b)).toEqual(Array.from({ length: EVENTS }, (_, n) => n));
}, 600_000);

/** Returns the numbers of all recorded steps of the user. */
async function recordedSteps(user: string): Promise<number[]> {
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
