import { beforeEach, expect, test, vi } from 'vitest';
import { FakeDevice } from './fake-device';

beforeEach(() => void vi.spyOn(console, 'warn').mockReturnValue());

const names = (items: Array<Record<string, unknown>>) => items.map((item) => item.event);

test('nothing is sent before flushAt items are queued or the flush interval is over', async () => {
  const device = new FakeDevice();
  const client = device.start();
  for (let i = 0; i < 19; i++) client.track(`e${i}`);
  await device.pass(29_000);
  expect(device.server.batches).toHaveLength(0);
  await device.pass(1_500);
  expect(names(device.server.batches[0]!.items)).toEqual(Array.from({ length: 19 }, (_, i) => `e${i}`));
  for (let i = 0; i < 20; i++) client.track('again');
  await device.pass(0);
  expect(device.server.batches[1]!.items).toHaveLength(20);
  expect(device.stored.size).toBe(1);
  const { url, init } = device.server.batches[0]!;
  expect(url).toBe('http://localhost:8080/api/v1/events/batch');
  expect(init.headers).toEqual({ 'content-type': 'application/json', 'x-api-key': 'pk_live_x' });
});

test('a batch has at most 100 items and 60 KiB', async () => {
  const device = new FakeDevice();
  const client = device.start({ flushAt: 100, flushIntervalSeconds: 3600 });
  device.server.script = ['lost'];
  for (let i = 0; i < 250; i++) client.track('small');
  for (let i = 0; i < 10; i++) client.track('large', { text: 'ü'.repeat(10_000) });
  await client.flush();
  await client.flush();
  const sizes = device.server.batches
    .slice(1)
    .map((sent) => [sent.items.length, new TextEncoder().encode(sent.init.body).length]);
  expect(sizes.reduce((sum, [items]) => sum + items!, 0)).toBe(260);
  for (const [items, bytes] of sizes) {
    expect(items).toBeLessThanOrEqual(100);
    expect(bytes).toBeLessThanOrEqual(60 * 1024);
  }
});

test('after 429 the client waits as long as the server requires, even if flush is called', async () => {
  const device = new FakeDevice();
  const client = device.start();
  device.server.script = [{ status: 429, headers: { 'retry-after': '60' } }];
  client.track('a');
  await client.flush();
  client.track('b');
  await client.flush();
  device.hide();
  await device.pass(59_000);
  expect(device.server.batches).toHaveLength(1);
  await device.pass(2_000);
  expect(names(device.server.batches[1]!.items)).toEqual(['a', 'b']);
});

test.each([
  ['a lost connection', 'lost' as const],
  ['a missing response', 'no response' as const],
  ['a server error', { status: 500, body: 'oops' }],
  ['503', { status: 503, body: {} }],
  ['408', { status: 408, body: {} }],
  ['a login page', { status: 200, body: '<!doctype html><title>Sign in</title>' }],
  ['a response of another program', { status: 200, body: { ok: true } }],
  ['a wrong address', { status: 404, body: 'nothing here' }],
  ['a firewall’s 403', { status: 403, body: '<title>Blocked</title>' }],
  ['a proxy’s 401', { status: 401, body: { status: 'denied' } }],
  ['a proxy’s 400', { status: 400, body: '' }],
  ['a proxy’s 422', { status: 422, body: {} }],
])('%s: retried later, recorded once', async (_, reply) => {
  const device = new FakeDevice();
  const client = device.start();
  device.server.script = [reply, reply, reply];
  client.track('a');
  await client.flush();
  client.track('b');
  await device.pass(600_000);
  expect(names([...device.server.recorded.values()])).toEqual(['a', 'b']);
  expect(device.server.batches.length).toBeGreaterThanOrEqual(4);
  expect(device.stored.size).toBe(1);
});

test('a proxy’s 413: the item that is too large is found, and the others are recorded', async () => {
  const device = new FakeDevice();
  const client = device.start();
  device.server.answer = (sent) =>
    sent.items.some((item) => item.event === 'large') ? { status: 413, body: '<title>nginx</title>' } : { status: 202 };
  for (const name of ['a', 'large', 'b']) client.track(name);
  await device.pass(60_000);
  expect(names([...device.server.recorded.values()])).toEqual(['a', 'b']);
});

test('a request without a response times out after half a minute, and its items are sent again', async () => {
  const device = new FakeDevice();
  const client = device.start();
  const real = device.server.fetch.bind(device.server);
  let requests = 0;
  device.server.fetch = (url, init) => (requests++ === 0 ? new Promise(() => {}) : real(url, init));
  client.track('a');
  let flushed = false;
  void client.flush().then(() => (flushed = true));
  await device.pass(29_000);
  expect([requests, flushed]).toEqual([1, false]);
  await device.pass(3_000);
  expect(flushed).toBe(true);
  expect(names([...device.server.recorded.values()])).toEqual(['a']);
});

test('a Retry-After of years is limited to one hour', async () => {
  const device = new FakeDevice();
  const client = device.start();
  device.server.script = [{ status: 429, headers: { 'retry-after': '99999999' } }];
  client.track('a');
  await client.flush();
  await device.pass(3_599_000);
  expect(device.server.batches).toHaveLength(1);
  await device.pass(2_000);
  expect(device.server.recorded.size).toBe(1);
});

test('items are sent at once when the network is back', async () => {
  const device = new FakeDevice();
  const client = device.start();
  device.server.script = Array(9).fill('lost');
  client.track('a');
  for (let i = 0; i < 9; i++) await client.flush();
  device.online();
  await device.pass(0);
  expect(device.server.recorded.size).toBe(1);
});

test('413, 422 and 400: batches are halved until the invalid item is found, and the others are recorded', async () => {
  for (const status of [413, 422, 400]) {
    const device = new FakeDevice();
    const dropped: unknown[] = [];
    const client = device.start({ onDrop: ({ item }) => void dropped.push(item) });
    device.server.answer = (sent) =>
      sent.items.some((item) => item.event === 'bad') ? { status, body: { status } } : { status: 202 };
    for (let i = 0; i < 41; i++) client.track(i === 17 ? 'bad' : `e${i}`);
    await device.pass(60_000);
    const recorded = names([...device.server.recorded.values()]);
    expect(recorded).toEqual(Array.from({ length: 41 }, (_, i) => `e${i}`).filter((name) => name !== 'e17'));
    expect(dropped).toMatchObject([{ event: 'bad' }]);
  }
});

test('401: items are kept, no retries, one error, sent after the next start', async () => {
  const device = new FakeDevice();
  let client = device.start();
  device.server.script = [{ status: 401, body: { status: 401 } }];
  client.track('a');
  await client.flush();
  client.track('b');
  await client.flush();
  device.hide();
  await device.pass(3_600_000);
  expect(device.server.batches).toHaveLength(1);
  expect(device.logged.filter((line) => line.startsWith('error'))).toHaveLength(1);
  device.kill();
  client = device.start({ apiKey: 'pk_live_right' });
  await device.pass(60_000);
  expect(names([...device.server.recorded.values()])).toEqual(['a', 'b']);
});

test('a closing page sends the oldest items in a request that outlives it, including items that are being sent', async () => {
  const device = new FakeDevice();
  const client = device.start();
  let release: (() => void) | undefined;
  const real = device.server.fetch.bind(device.server);
  device.server.fetch = async (url, init) => {
    if (!init.keepalive) await new Promise<void>((done) => (release = done));
    return real(url, init);
  };
  client.track('a');
  void client.flush();
  client.track('b');
  await device.pass(0);
  device.hide();
  await device.pass(0);
  expect(names(device.server.batches[0]!.items)).toEqual(['a', 'b']);
  expect(device.server.batches[0]!.init.keepalive).toBe(true);
  release!();
  await device.pass(60_000);
  expect(device.server.recorded.size).toBe(2);
  expect(device.stored.size).toBe(1);
});

test('the queue of a killed page is sent by the next one', async () => {
  const device = new FakeDevice();
  device.start().track('a');
  device.kill();
  device.start().track('b');
  await device.pass(31_000);
  expect(names([...device.server.recorded.values()])).toEqual(['a', 'b']);
});

test('a clock that is set back does not prolong the delay', async () => {
  const device = new FakeDevice();
  const client = device.start();
  device.server.script = [{ status: 429, headers: { 'retry-after': '60' } }];
  client.track('a');
  await client.flush();
  device.setClock(-365 * 86_400_000);
  await device.pass(61_000);
  expect(names([...device.server.recorded.values()])).toEqual(['a']);
});

test('nothing is lost if the storage is too full to take over a queue at once', () => {
  const device = new FakeDevice();
  const first = device.start();
  first.track('large', { text: 'x'.repeat(10_000) });
  first.track('small');
  device.kill();
  // Enough for one copy, not for two.
  device.quota = 15_000;
  device.start();
  device.kill();
  const stored = [...device.stored.values()].join();
  expect(stored).toContain('"event":"large"');
  expect(stored).toContain('"event":"small"');
});

test('without storage or with a full one, items are sent from memory', async () => {
  for (const memoryOnly of [true, false]) {
    const device = new FakeDevice();
    device.full = !memoryOnly;
    const client = device.start({}, memoryOnly);
    client.identify('u');
    client.track('a');
    await device.pass(31_000);
    expect([...device.server.recorded.values()].map((item) => item.user_id)).toEqual(['u', 'u']);
  }
});

test('each event is recorded once despite failed requests and killed pages', async () => {
  for (let seed = 1; seed <= 30; seed++) {
    const random = numbers(seed);
    const device = new FakeDevice();
    device.server.answer = () => {
      const dice = random();
      if (dice < 0.15) return 'lost';
      if (dice < 0.3) return 'no response';
      if (dice < 0.4) return { status: 503, body: {} };
      if (dice < 0.5) return { status: 429, body: {}, headers: { 'retry-after': '3' } };
      return { status: 202 };
    };
    let client = device.start({ flushAt: 5 });
    const tracked: string[] = [];
    for (let i = 0; i < 400; i++) {
      client.track(`e${i}`);
      tracked.push(`e${i}`);
      const dice = random();
      if (dice < 0.1) await device.pass(random() * 5_000);
      else if (dice < 0.15) void client.flush();
      else if (dice < 0.2) device.hide();
      else if (dice < 0.25) {
        device.kill();
        client = device.start({ flushAt: 5 });
      } else if (dice < 0.27) {
        client.dispose();
        client = device.start({ flushAt: 5 });
      }
    }
    device.server.answer = () => ({ status: 202 });
    await device.pass(3_600_000);
    const recorded = names([...device.server.recorded.values()]);
    expect(recorded.toSorted()).toEqual(tracked.toSorted());
    expect([...device.stored.keys()]).toEqual(['rekindle.p.identity']);
  }
});

/** Returns numbers in [0, 1) that depend on the seed only. */
function numbers(seed: number): () => number {
  return () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
}
