import { expect, test, vi } from 'vitest';
import { type Drop, PushLink } from '../src/index';
import { FakeDevice, settle } from './fake-device';

const all = (device: FakeDevice) => [...device.server.recorded.values()];

test('an identified user keeps their earlier events across restarts', async () => {
  const device = new FakeDevice();
  let client = device.start();
  const anonymous = client.getAnonymousId();
  expect(client.getUserId()).toBeNull();
  client.track('before');
  client.identify('ada', { plan: 'pro' }, { userHash: 'hash' });
  device.kill();
  client = device.start();
  expect([client.getUserId(), client.getAnonymousId()]).toEqual(['ada', anonymous]);
  client.screen('Home', { tab: 1 });
  client.setUserProperties({ plan: null });
  await client.flush();
  expect(
    all(device).map(({ type, user_id, anonymous_id, user_hash, event, name, properties }) => [
      type,
      user_id,
      anonymous_id,
      user_hash,
      event ?? name,
      properties,
    ]),
  ).toEqual([
    ['track', undefined, anonymous, undefined, 'before', {}],
    ['identify', 'ada', anonymous, 'hash', undefined, { plan: 'pro' }],
    ['screen', 'ada', anonymous, 'hash', 'Home', { tab: 1 }],
    ['identify', 'ada', anonymous, 'hash', undefined, { plan: null }],
  ]);
});

test('another user on the same device gets a new anonymous ID', async () => {
  const device = new FakeDevice();
  const client = device.start();
  client.identify('ada', {}, { userHash: 'h' });
  const first = client.getAnonymousId();
  client.identify('ada');
  expect(client.getAnonymousId()).toBe(first);
  client.identify('bob');
  expect(client.getAnonymousId()).not.toBe(first);
  await client.flush();
  expect(all(device).map((item) => [item.user_id, item.user_hash])).toEqual([
    ['ada', 'h'],
    ['ada', 'h'],
    ['bob', undefined],
  ]);
});

test('reset sends queued items, logs the user out and creates a new anonymous ID', async () => {
  const device = new FakeDevice();
  const client = device.start();
  client.identify('ada');
  const before = client.getAnonymousId();
  await client.reset();
  expect(all(device)).toHaveLength(1);
  expect(client.getUserId()).toBeNull();
  expect(client.getAnonymousId()).not.toBe(before);
});

test('an opt-out stops recording and deletes queued items until the opt-in', async () => {
  const device = new FakeDevice();
  let client = device.start();
  client.track('a');
  client.optOutTracking();
  client.track('b');
  device.kill();
  client = device.start();
  client.track('c');
  expect(client.hasOptedOutTracking()).toBe(true);
  client.optInTracking();
  client.track('d');
  await client.flush();
  expect(all(device).map((item) => item.event)).toEqual(['d']);
});

test('an opt-out in another page also stops recording here, and deletes the queue of a closed page', async () => {
  const device = new FakeDevice();
  const client = device.start();
  client.track('a');
  const identity = JSON.parse(device.stored.get('rekindle.p.identity')!) as object;
  device.write('rekindle.p.identity', JSON.stringify({ ...identity, optedOut: true }));
  device.stored.set('rekindle.p.queue.gone.0', '[{"id":"1"}]');
  await client.flush();
  device.start();
  await device.pass(60_000);
  expect(device.server.sent).toEqual([]);
  expect([...device.stored.keys()]).toEqual(['rekindle.p.identity']);
});

test('a login in another page while this page was hidden is known when it is shown, unless the storage is full', () => {
  const device = new FakeDevice();
  const client = device.start();
  client.identify('ada');
  device.stored.set('rekindle.p.identity', '{"anonymousId":"b","userId":"bob"}');
  device.show();
  expect(client.getUserId()).toBe('bob');
  device.full = true;
  client.identify('cid');
  device.show();
  expect(client.getUserId()).toBe('cid');
});

test('with optOutByDefault nothing is recorded until the opt-in', async () => {
  const device = new FakeDevice();
  const client = device.start({ optOutByDefault: true });
  client.track('a');
  client.optInTracking();
  client.track('b');
  await client.flush();
  expect(all(device).map((item) => item.event)).toEqual(['b']);
});

test('lifecycle events are recorded if enabled', async () => {
  const device = new FakeDevice();
  const client = device.start({ autoTrackLifecycle: true });
  device.hide();
  device.show();
  await client.flush();
  expect(all(device).map((item) => item.event)).toEqual(['app_opened', 'app_backgrounded', 'app_opened']);
});

test('invalid calls are reported and do not affect other items', async () => {
  const device = new FakeDevice();
  const drops: Drop[] = [];
  const warn = vi.spyOn(console, 'warn').mockReturnValue();
  const client = device.start({ onDrop: (drop) => void drops.push(drop) });
  const cyclic: Record<string, unknown> = {};
  cyclic.me = cyclic;
  const bad: Array<() => void> = [
    () => client.track(7 as never),
    () => client.track(''),
    () => client.track('x'.repeat(201)),
    () => client.track('a\u0000b'),
    () => client.track('large', { text: 'x'.repeat(1_000_000) }),
    () => client.track('text', 'properties' as never),
    () => client.track('list', [1] as never),
    () =>
      client.track('boom', {
        get no() {
          throw new Error('no');
        },
      }),
    () => client.screen(undefined as never),
    () => client.identify(null as never),
    () => client.setUserProperties(null as never),
  ];
  for (const call of bad) call();
  expect(drops.map((drop) => drop.reason)).toEqual([
    ...Array<string>(4).fill('invalid_name'),
    'too_large',
    ...Array<string>(3).fill('invalid_properties'),
    ...Array<string>(2).fill('invalid_name'),
    'invalid_properties',
  ]);
  // Once for each reason.
  expect(warn).toHaveBeenCalledTimes(3);
  expect([client.droppedItems(), client.droppedItems('too_large')]).toEqual([bad.length, 1]);
  client.track('cyclic', cyclic);
  client.track('function', { f: () => 1, g: Symbol('x'), ok: 1 });
  client.identify(42 as never);
  await client.flush();
  expect(all(device).map((item) => item.properties)).toEqual([{ me: '[Circular]' }, { ok: 1 }, {}]);
  expect(client.getUserId()).toBe('42');
});

test('after dispose nothing is recorded and no timer runs; queued items are sent after the next start', async () => {
  const device = new FakeDevice();
  device.server.answer = () => 'lost';
  const client = device.start();
  client.track('a');
  client.dispose();
  client.track('b');
  await client.flush();
  await device.pass(3_600_000);
  expect(device.server.batches).toHaveLength(1);
  device.server.answer = () => ({ status: 202 });
  device.start();
  await device.pass(60_000);
  expect(all(device).map((item) => item.event)).toEqual(['a']);
});

test('a device follows its user: registered, moved and unlinked, across lost connections and restarts', async () => {
  const device = new FakeDevice();
  const calls = () =>
    device.server.sent
      .filter((sent) => sent.url.endsWith('/push-tokens'))
      .map((sent) => [sent.init.method, JSON.parse(sent.init.body!) as unknown]);
  let client = device.start();
  let push = new PushLink(client);
  expect(await push.register('t1', 'IOS')).toBe(true);
  expect(await push.register('t1', 'IOS')).toBe(true);
  expect(calls()).toEqual([['POST', { anonymous_id: client.getAnonymousId(), token: 't1', platform: 'IOS' }]]);
  client.identify('ada', {}, { userHash: 'h' });
  await settle();
  expect(calls()[1]).toEqual(['POST', { user_id: 'ada', token: 't1', platform: 'IOS' }]);

  device.server.answer = () => 'lost';
  await client.reset();
  await settle();
  device.kill();
  client = device.start();
  push = new PushLink(client);
  await settle();
  device.server.answer = () => ({ status: 202 });
  device.online();
  await settle();
  expect(calls().at(-1)).toEqual(['DELETE', { token: 't1' }]);

  client.identify('bob');
  await settle();
  expect(calls().at(-1)).toEqual(['POST', { user_id: 'bob', token: 't1', platform: 'IOS' }]);
  expect(push.isEnabled()).toBe(true);
  expect(await push.optOut()).toBe(true);
  expect(calls().at(-1)).toEqual(['DELETE', { token: 't1' }]);
  expect(push.isEnabled()).toBe(false);
  client.identify('cid');
  await settle();
  expect(calls().at(-1)![0]).toBe('DELETE');
  expect(await push.optIn()).toBe(true);
  expect(calls().at(-1)).toEqual(['POST', { user_id: 'cid', token: 't1', platform: 'IOS' }]);
});

test('an opt-out of push applies without a token and to later tokens, until the user requests push', async () => {
  const device = new FakeDevice();
  const calls = () =>
    device.server.sent.filter((sent) => sent.url.endsWith('/push-tokens')).map((sent) => sent.init.method);
  const push = new PushLink(device.start());
  expect([await push.optOut(), push.isEnabled()]).toEqual([true, false]);
  device.kill();
  const client = device.start();
  const again = new PushLink(client);
  expect(await again.register('t1', 'ANDROID', false)).toBe(true);
  expect(await again.register('t2', 'ANDROID', false)).toBe(true);
  expect([again.isEnabled(), calls()]).toEqual([false, []]);
  expect([await again.optIn(), again.isEnabled(), calls()]).toEqual([true, true, ['POST']]);

  await client.reset();
  await settle();
  await again.register('t2', 'ANDROID', false);
  expect(calls()).toEqual(['POST', 'DELETE']);
  await again.register('t2', 'ANDROID');
  expect(calls()).toEqual(['POST', 'DELETE', 'POST']);
});

test('an opt-in without a token returns false, and the next token is registered', async () => {
  const device = new FakeDevice();
  const push = new PushLink(device.start());
  await push.optOut();
  expect(await push.optIn()).toBe(false);
  await push.register('t1', 'IOS', false);
  expect([push.isEnabled(), device.server.sent.length]).toEqual([true, 1]);
});

test('a token rejected by the server is sent again when the app is shown', async () => {
  const device = new FakeDevice();
  const push = new PushLink(device.start());
  await settle();
  device.server.script = [{ status: 503 }];
  expect(await push.register('t1', 'IOS')).toBe(false);
  device.show();
  await settle();
  expect(device.server.sent.map((sent) => sent.init.method)).toEqual(['POST', 'POST']);
});
