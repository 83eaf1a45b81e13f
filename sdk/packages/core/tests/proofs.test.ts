import { expect, test, vi } from 'vitest';
import { Content, type Drop, PushLink } from '../src/index';
import { type InboxChange, followInbox } from '../src/live';
import { FakeDevice, settle } from './fake-device';

/** A device with a server that verifies users by tokens. `valid` maps valid tokens to users. */
function deviceWithVerification() {
  const device = new FakeDevice();
  const valid = new Map<string, string>();
  device.server.answer = ({ url, init, items }) => {
    const proven = valid.get(init.headers['x-user-token'] ?? '');
    if (!url.endsWith('/events/batch')) {
      const user =
        new URL(url).searchParams.get('user_id') ?? (JSON.parse(init.body ?? '{}') as { user_id?: string }).user_id;
      return user === proven
        ? { status: 202, body: { items: [] } }
        : { status: 403, body: { status: 403, message: 'user_token has expired' } };
    }
    const refused = items.flatMap(({ user_id }, index) => (user_id === undefined || user_id === proven ? [] : [index]));
    items.forEach((item, index) => refused.includes(index) || device.server.recorded.set(String(item.id), item));
    const details = refused.map((index) => ({ index, message: 'user_token has expired', code: 'identity_unproven' }));
    return {
      status: 202,
      body: { success: !refused.length, processed: items.length - refused.length, errors: refused.length, details },
    };
  };
  const events = () => [...device.server.recorded.values()].map((item) => item.event ?? item.type);
  return { device, valid, events };
}

test('events are kept until the app returns a new token, and none is recorded twice', async () => {
  vi.spyOn(console, 'warn').mockReturnValue();
  const { device, valid, events } = deviceWithVerification();
  const drops: Drop[] = [];
  const calls: string[] = [];
  let fresh: string | undefined;
  const client = device.start({
    onDrop: (drop) => drops.push(drop),
    userToken: async (userId) => {
      calls.push(userId);
      if (!fresh) throw new Error('the backend is unavailable');
      return fresh;
    },
  });
  client.track('before');
  client.identify('ann', {}, { userToken: 'old' });
  client.track('after');
  await client.flush();
  expect([events(), calls]).toEqual([['before'], ['ann']]);
  await device.pass(60_000);
  expect(calls.length).toBeGreaterThan(1);
  // A rejected token is not sent again.
  expect(device.server.batches).toHaveLength(1);
  fresh = 'new';
  valid.set('new', 'ann');
  await device.pass(600_000);
  expect(events()).toEqual(['before', 'identify', 'after']);
  expect(device.server.batches.at(-1)!.init.headers['x-user-token']).toBe('new');
  // The token is not part of the items, and persists across restarts.
  expect(JSON.stringify([...device.server.recorded.values()])).not.toContain('new');
  device.kill();
  const again = device.start();
  again.track('next day');
  await again.flush();
  expect([events().at(-1), drops]).toEqual(['next day', []]);
});

test('without the callback, events are kept until identify sets a token', async () => {
  vi.spyOn(console, 'warn').mockReturnValue();
  const { device, valid, events } = deviceWithVerification();
  const client = device.start();
  client.identify('ann', {}, { userToken: 'old' });
  for (let i = 0; i < 30; i++) client.track('kept');
  await device.pass(600_000);
  expect([events(), device.server.batches.length]).toEqual([[], 1]);
  valid.set('new', 'ann');
  client.identify('ann', {}, { userToken: 'new' });
  await device.pass(1_000);
  expect(events()).toEqual(['identify', ...Array.from({ length: 30 }, () => 'kept'), 'identify']);
});

test('a userToken function passed to identify replaces the one passed to init', async () => {
  const { device, valid, events } = deviceWithVerification();
  const calls: string[] = [];
  const client = device.start({ userToken: () => void calls.push('init') });
  valid.set('of-ann', 'ann');
  const userToken = async (userId: string) => {
    calls.push(userId);
    return 'of-ann';
  };
  client.identify('ann', { plan: 'pro' }, { userToken });
  await client.flush();
  await device.pass(1_000);
  expect([events(), calls]).toEqual([['identify'], ['ann']]);
});

test('items recorded elsewhere are sent with the proof of their user, and not after an opt-out', async () => {
  const { device, valid, events } = deviceWithVerification();
  valid.set('of-ann', 'ann');
  const client = device.start();
  client.identify('ann', {}, { userToken: 'of-ann' });
  const item = {
    type: 'track',
    event: 'push_received',
    timestamp: '2026-01-01T00:00:00.000Z',
    user_id: 'ann',
    anonymous_id: 'a',
  } as const;
  client.resend([{ ...item, id: 'r1' }]);
  await device.pass(1_000);
  expect(events()).toEqual(['identify', 'push_received']);
  client.optOutTracking();
  client.resend([{ ...item, id: 'r2' }]);
  await device.pass(60_000);
  expect(events()).toHaveLength(2);
});

test('without a token, rejected items are dropped and reported', async () => {
  vi.spyOn(console, 'warn').mockReturnValue();
  const { device, events } = deviceWithVerification();
  const drops: Drop[] = [];
  const client = device.start({ onDrop: (drop) => drops.push(drop) });
  client.identify('ann');
  await client.flush();
  expect([events(), drops.map(({ reason, message }) => [reason, message])]).toEqual([
    [],
    [['rejected', 'user_token has expired']],
  ]);
});

test('events of one user are sent with that user’s token after another user has logged in', async () => {
  const { device, valid, events } = deviceWithVerification();
  valid.set('of-ann', 'ann').set('of-bob', 'bob');
  const client = device.start();
  client.identify('ann', {}, { userToken: 'of-ann' });
  device.server.script = ['lost'];
  await client.reset();
  client.track('anonymous');
  client.identify('bob', {}, { userToken: 'of-bob' });
  await client.flush();
  expect(events()).toEqual(['identify', 'anonymous', 'identify']);
  const tokens = device.server.batches.map((sent) => sent.init.headers['x-user-token']);
  expect(tokens).toEqual(['of-ann', 'of-ann', 'of-bob']);
  client.track('later');
  await client.reset();
  expect(events().at(-1)).toBe('later');
});

test("an app that never returns a token delays nothing for long, and another user's token is not used", async () => {
  vi.spyOn(console, 'warn').mockReturnValue();
  const { device, valid, events } = deviceWithVerification();
  let answer: (token: string) => void = () => {};
  const client = device.start({ userToken: () => new Promise((done) => (answer = done)) });
  client.identify('ann');
  await client.flush();
  await client.reset();
  client.track('anonymous');
  await client.flush();
  expect(events()).toContain('anonymous');
  await device.pass(31_000);
  valid.set('of-ann', 'ann');
  answer('of-ann');
  client.identify('bob');
  await settle();
  expect(client.identity.get().userToken).toBeUndefined();
});

test('the inbox, its stream and the device registration are retried with a new token, which is never part of the URL', async () => {
  const { device, valid } = deviceWithVerification();
  valid.set('new', 'ann');
  const client = device.start({ userToken: () => 'new' });
  client.identify('ann', {}, { userToken: 'old' });
  expect(await new Content(client).inbox()).toEqual([]);
  expect(client.identity.get().userToken).toBe('new');
  const push = new PushLink(client);
  client.identify('ann', {}, { userToken: 'old' });
  expect(await push.register('t', 'IOS')).toBe(true);

  client.identify('ann', {}, { userToken: 'old' });
  const changes: InboxChange[] = [];
  const streams: Array<{ token?: string; end: (status: number, after: null) => void }> = [];
  followInbox(
    client,
    (change) => void changes.push(change),
    (url, headers, { end }) => {
      expect(url).not.toMatch(/token|hash|old|new/);
      streams.push({ token: headers['x-user-token'], end });
      return () => {};
    },
  );
  streams[0]!.end(403, null);
  await settle();
  expect([streams.map(({ token }) => token), changes]).toEqual([['old', 'new'], []]);
  for (const { url } of device.server.sent) expect(url).not.toMatch(/token=|hash|old|new/);
});
