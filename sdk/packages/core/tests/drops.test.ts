import { expect, test, vi } from 'vitest';
import { type Drop, type DropReason } from '../src/index';
import { FakeDevice, settle } from './fake-device';

function deviceWithDrops() {
  const drops: Drop[] = [];
  const warn = vi.spyOn(console, 'warn').mockReturnValue();
  const device = new FakeDevice();
  const start = (options: object = {}) => device.start({ onDrop: (drop) => void drops.push(drop), ...options });
  return { device, drops, warn, start };
}

test('each item rejected by the server is reported with its message, and the other items are recorded', async () => {
  const { device, drops, warn, start } = deviceWithDrops();
  const client = start();
  const answer = {
    success: false,
    processed: 1,
    errors: 2,
    details: [
      { index: 0, message: 'event is reserved' },
      { index: 2, message: 'user_hash is wrong' },
    ],
  };
  device.server.script = [{ status: 202, body: answer }];
  for (const name of ['a', 'b', 'c']) client.track(name);
  await client.flush();
  expect(drops).toMatchObject([
    { reason: 'rejected', count: 1, message: 'event is reserved', item: { type: 'track', event: 'a' } },
    { reason: 'rejected', count: 1, message: 'user_hash is wrong', item: { event: 'c' } },
  ]);
  expect(warn).toHaveBeenCalledOnce();
  expect([client.droppedItems(), client.droppedItems('rejected'), client.droppedItems('queue_full')]).toEqual([
    2, 2, 0,
  ]);
});

test('an item sent both by a closing page and by the page itself is reported once', async () => {
  const { device, drops, start } = deviceWithDrops();
  const client = start();
  device.server.answer = () => ({
    status: 202,
    body: { success: false, processed: 0, errors: 1, details: [{ index: 0, message: 'no' }] },
  });
  client.track('a');
  void client.flush();
  device.hide();
  await settle();
  expect(device.server.batches).toHaveLength(2);
  expect(drops).toHaveLength(1);
});

test.each([
  [400, 'rejected'],
  [413, 'too_large'],
] as const)('an item that makes the server reject its batch with %i is reported', async (status, reason) => {
  const { device, drops, start } = deviceWithDrops();
  const client = start();
  device.server.answer = (sent) =>
    sent.items.some((item) => item.event === 'bad')
      ? { status, body: { status, message: 'event: not this one' } }
      : { status: 202 };
  for (const name of ['a', 'bad', 'c']) client.track(name);
  await device.pass(60_000);
  expect(drops).toMatchObject([{ reason, message: 'event: not this one', item: { event: 'bad' } }]);
});

test('10,000 events of one task are all recorded', async () => {
  const { device, drops, start } = deviceWithDrops();
  const client = start();
  for (let n = 0; n < 10_000; n++) client.track('step', { n });
  await client.flush();
  await device.pass(1_000);
  const numbers = [...device.server.recorded.values()].map((item) => (item.properties as { n: number }).n);
  expect(numbers).toEqual(Array.from({ length: 10_000 }, (_, n) => n));
  expect([drops, client.droppedItems(), device.stored.size]).toEqual([[], 0, 1]);
});

test('items beyond the capacity of the queue are reported with their number', () => {
  const { device, drops, start } = deviceWithDrops();
  device.server.answer = () => 'lost';
  const client = start();
  for (let n = 0; n < 20_100; n++) client.track('step');
  const count = drops.reduce((sum, drop) => sum + drop.count, 0);
  expect(new Set(drops.map((drop) => drop.reason))).toEqual(new Set<DropReason>(['queue_full']));
  expect([count, client.droppedItems('queue_full')]).toEqual([100, 100]);
});

test('a listener that throws, or that tracks dropped items itself, does not affect recording', async () => {
  const error = vi.spyOn(console, 'error').mockReturnValue();
  const { device } = deviceWithDrops();
  const client = device.start({
    onDrop: () => {
      client.track('');
      throw new Error('the host’s');
    },
  });
  client.track('');
  client.track('');
  client.track('good');
  await client.flush();
  expect(client.droppedItems('invalid_name')).toBe(4);
  expect(error).toHaveBeenCalledTimes(2);
  expect([...device.server.recorded.values()].map((item) => item.event)).toEqual(['good']);
});

test.each([
  ['a missing path', { status: 404, body: { status: 404, message: 'no such path' } }, 1, 'apiUrl is wrong'],
  ['a file server', { status: 405, body: '<title>405</title>' }, 1, 'apiUrl is wrong'],
  ['a page', { status: 200, body: '<!doctype html>' }, 1, 'not like Rekindle'],
  ['a name that does not resolve', 'lost' as const, 5, 'does not respond'],
])(
  'a wrong apiUrl, %s: one warning, requests become less frequent, and nothing is lost',
  async (_, reply, after, message) => {
    const { device, drops, warn, start } = deviceWithDrops();
    const client = start();
    device.server.answer = () => reply;
    client.track('a');
    for (let tries = 0; tries < after; tries++) {
      expect(warn).not.toHaveBeenCalled();
      await client.flush();
    }
    await device.pass(3_600_000);
    expect(warn).toHaveBeenCalledOnce();
    expect(String(warn.mock.calls[0])).toContain(message);
    expect(device.server.batches.length).toBeLessThan(80);
    device.server.answer = () => ({ status: 202 });
    await device.pass(600_000);
    expect([device.server.recorded.size, drops]).toEqual([1, []]);
  },
);

test('a temporarily overloaded or unavailable server causes no warning', async () => {
  const { device, warn, start } = deviceWithDrops();
  const client = start();
  device.server.script = [429, 503, 500, 408].map((status) => ({ status, body: {} }));
  client.track('a');
  await device.pass(3_600_000);
  expect(device.server.recorded.size).toBe(1);
  expect(warn).not.toHaveBeenCalled();
});
