import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import type { Rekindle } from '../packages/web/src/index';
import { fixture, quiet, waited } from './fixture';

declare const rekindle: Rekindle;

const EVENTS = 10_000;
const RUNS = 5;

/** Work of one task of the browser. */
interface Slice {
  /** Number of parts of the queue that were written. */
  writes: number;
  /** Number of requests that were started. */
  requests: number;
  /** Number of calls of `JSON.stringify`. */
  serializations: number;
  milliseconds: number;
}

const here = fixture();

/** Counts the work of each slice: a timer or the code after a response. The first one is the page's own task. */
function countWork(): void {
  const slices: Slice[] = [];
  let startTime = 0;
  const end = () => {
    const last = slices.at(-1);
    if (last) last.milliseconds = Math.max(last.milliseconds, performance.now() - startTime);
  };
  const begin = () => {
    slices.push({ writes: 0, requests: 0, serializations: 0, milliseconds: 0 });
    startTime = performance.now();
  };
  Object.assign(globalThis, { slices, begin, end });
  const { setItem } = Storage.prototype;
  Storage.prototype.setItem = function (this: Storage, key: string, value: string) {
    setItem.call(this, key, value);
    if (key.includes('.queue.') && slices.length) slices.at(-1)!.writes++;
    end();
  };
  const { stringify } = JSON;
  JSON.stringify = ((...args: Parameters<typeof stringify>) => {
    if (slices.length) slices.at(-1)!.serializations++;
    return stringify(...args);
  }) as typeof stringify;
  const { setTimeout: timer, fetch: request } = globalThis;
  const measured = (run: () => void, after?: number) =>
    timer(() => {
      begin();
      run();
      end();
    }, after);
  Object.assign(globalThis, {
    setTimeout: measured,
    fetch(...args: Parameters<typeof request>) {
      if (slices.length) slices.at(-1)!.requests++;
      end();
      return request(...args);
    },
  });
  // The SDK continues when it has read the response.
  const { text } = Response.prototype;
  Response.prototype.text = async function (this: Response) {
    const read = await text.call(this);
    begin();
    return read;
  };
}

/** Records 10,000 events in one task. Returns the processor time of the task, in milliseconds, and the slices after it. */
async function burst(page: Page): Promise<{ task: number; own: Slice; later: Slice[]; dropped: number }> {
  const session = await here.context.newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const used = async () => {
    const { metrics } = await session.send('Performance.getMetrics');
    return metrics.find(({ name }) => name === 'ThreadTime')!.value * 1_000;
  };
  const before = await used();
  await page.evaluate((events) => {
    const { begin } = globalThis as unknown as { begin(): void };
    begin();
    for (let n = 0; n < events; n++) rekindle.track('step', { productId: `p${n}`, price: 49.5, tags: ['a', 'b'] });
    (globalThis as unknown as { end(): void }).end();
  }, EVENTS);
  const task = (await used()) - before;
  await page.waitForFunction(() => !Object.keys(localStorage).some((key) => key.includes('.queue.')), undefined, {
    ...waited,
    timeout: 60_000,
  });
  const { slices, dropped } = await page.evaluate(() => ({
    slices: (globalThis as unknown as { slices: Slice[] }).slices,
    dropped: rekindle.droppedItems(),
  }));
  const [own, ...later] = slices;
  return { task, own: own!, later, dropped };
}

test('10,000 events of one task are recorded, and the work after it is done in small slices', async () => {
  const tasks: number[] = [];
  const longest: number[] = [];
  for (let run = 0; run < RUNS; run++) {
    here.site.requests.length = 0;
    await here.context.addInitScript(countWork);
    const page = await here.open(quiet);
    await page.evaluate((user) => rekindle.identify(user, {}, { userHash: 'a'.repeat(64) }), `burst-${run}`);
    await page.evaluate(() => rekindle.flush());
    await page.evaluate(() => ((globalThis as unknown as { slices: Slice[] }).slices.length = 0));
    const { task, own, later, dropped } = await burst(page);
    const ids = new Set(
      here.site.requests
        .filter(({ status }) => status === 202)
        .flatMap(({ body }) => (JSON.parse(body) as { batch: Array<{ id: string }> }).batch.map(({ id }) => id)),
    );
    expect([dropped, ids.size]).toEqual([0, EVENTS + 1]);
    // The page's own task stores the first items immediately, and serializes only the properties of the others.
    expect(own).toMatchObject({ writes: 100, requests: 0 });
    expect(own.serializations).toBeLessThanOrEqual(EVENTS + 200);
    for (const slice of later) {
      expect(slice.writes).toBeLessThanOrEqual(50);
      expect(slice.serializations).toBeLessThanOrEqual(1_300);
      expect(slice.requests).toBeLessThanOrEqual(1);
    }
    tasks.push(task);
    longest.push(Math.max(...later.map(({ milliseconds }) => milliseconds)));
    await page.close();
  }
  // Logged without an expectation, because other programs also use the processors.
  const format = (times: number[]) =>
    times
      .toSorted((a, b) => a - b)
      .map(Math.round)
      .join(', ');
  console.log(
    `${EVENTS} calls in one task: ${format(tasks)} ms of processor time; longest slice after it: ${format(longest)} ms`,
  );
}, 300_000);
