import { beforeEach, expect, test, vi } from 'vitest';

const app = vi.hoisted(() => ({ state: 'active', listeners: [] as Array<(state: string) => void> }));
vi.mock('react-native', () => ({
  AppState: {
    get currentState() {
      return app.state;
    },
    addEventListener: (_: string, run: (state: string) => void) => {
      app.listeners.push(run);
      return { remove: () => app.listeners.splice(app.listeners.indexOf(run), 1) };
    },
  },
  Platform: { OS: 'ios' },
}));

import { type AsyncStorage, type Route, Rekindle } from '../src/index';

const options = { projectId: 'p', apiKey: 'pk_live_x', apiUrl: 'https://rk.example', autoTrackLifecycle: false };
let sent: Array<{
  url: string;
  method: string;
  body: { batch?: Array<Record<string, unknown>> } & Record<string, unknown>;
}> = [];
const items = () => sent.flatMap((each) => each.body.batch ?? []);

/** A storage with asynchronous reads and writes, like the real one. */
function slowStorage(map = new Map<string, string>()): AsyncStorage & { map: Map<string, string> } {
  const later = <T>(run: () => T) => new Promise<T>((done) => setTimeout(() => done(run()), 2));
  return {
    map,
    getAllKeys: () => later(() => [...map.keys()]),
    getItem: (key) => later(() => map.get(key) ?? null),
    setItem: (key, value) => later(() => void map.set(key, value)),
    removeItem: (key) => later(() => void map.delete(key)),
  };
}

function setAppState(state: string): void {
  app.state = state;
  app.listeners.slice().forEach((run) => run(state));
}

beforeEach(() => {
  sent = [];
  app.state = 'active';
  app.listeners.length = 0;
  vi.stubGlobal('fetch', async (url: string, init: { method: string; body?: string }) => {
    const body = JSON.parse(init.body ?? '{}') as { batch?: Array<Record<string, unknown>> };
    sent.push({ url, method: init.method, body });
    return new Response(JSON.stringify({ processed: body.batch?.length ?? 0, errors: 0 }), { status: 202 });
  });
});

async function started(storage?: AsyncStorage, more: object = {}): Promise<Rekindle> {
  const rekindle = new Rekindle();
  rekindle.init({ ...options, storage, ...more });
  await rekindle.ready();
  return rekindle;
}

test('calls made while the storage is read are kept; identity and queue outlive the app', async () => {
  const storage = slowStorage();
  const first = new Rekindle();
  first.init({ ...options, storage });
  first.identify('ada');
  const properties = { from: 'push' };
  first.track('kept', properties);
  properties.from = 'elsewhere';
  const called = Date.now();
  vi.spyOn(Date, 'now').mockImplementation(() => called + 60_000);
  await vi.waitFor(() => expect([...storage.map.values()].join()).toContain('"kept"'));
  const anonymous = first.getAnonymousId();

  const second = await started(storage);
  expect([second.getUserId(), second.getAnonymousId()]).toEqual(['ada', anonymous]);
  await second.flush();
  expect(items().map((item) => item.event ?? item.type)).toEqual(['identify', 'kept']);
  expect(items()[1]!.properties).toEqual({ from: 'push' });
  // Items have the time of the call, not the time when the storage had been read.
  for (const item of items()) expect(Date.parse(String(item.timestamp))).toBeLessThanOrEqual(called);
  await vi.waitFor(() => expect([...storage.map.keys()]).toEqual(['rekindle.p.identity']));
});

test('items are stored before they are sent', async () => {
  const storage = slowStorage();
  const rekindle = await started(storage);
  rekindle.track('a');
  let stored = '';
  const real = fetch;
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    stored = [...storage.map.values()].join();
    return real(url, init);
  });
  await rekindle.flush();
  expect(stored).toContain('"event":"a"');
});

test('ready resolves when the storage was read; until then the IDs are those of a new device', async () => {
  const storage = slowStorage();
  const first = await started(storage);
  first.identify('ada');
  await first.flush();
  const again = new Rekindle();
  const early = again.getAnonymousId();
  again.init({ ...options, storage });
  await again.ready();
  expect([again.getUserId(), again.getAnonymousId()]).toEqual(['ada', first.getAnonymousId()]);
  expect(early).not.toBe(first.getAnonymousId());
  const fresh = new Rekindle();
  const idBeforeInit = fresh.getAnonymousId();
  fresh.init({ ...options, storage: slowStorage() });
  await fresh.ready();
  expect(fresh.getAnonymousId()).toBe(idBeforeInit);
});

test('flush and reset right after init wait for the storage', async () => {
  const rekindle = new Rekindle();
  rekindle.init({ ...options, storage: slowStorage() });
  rekindle.identify('ada');
  rekindle.track('a');
  await rekindle.flush();
  expect(items().map((item) => item.event ?? item.type)).toEqual(['identify', 'a']);
  await rekindle.reset();
  expect(rekindle.getUserId()).toBeNull();
});

test('invalid options throw in debug mode, and a valid init may follow', async () => {
  const error = vi.spyOn(console, 'error').mockReturnValue();
  const rekindle = new Rekindle();
  expect(() => rekindle.init({ ...options, apiKey: 'sk_live_x', debug: true })).toThrow('secret key');
  rekindle.init({ ...options, apiKey: '' });
  expect(error).toHaveBeenCalledTimes(2);
  rekindle.track('kept');
  rekindle.init(options);
  await rekindle.flush();
  expect(items().map((item) => item.event)).toEqual(['kept']);
});

test('after dispose while the storage is read and another init, one client remains', async () => {
  const storage = slowStorage();
  const rekindle = new Rekindle();
  rekindle.init({ ...options, storage });
  rekindle.dispose();
  rekindle.init({ ...options, storage });
  await rekindle.ready();
  rekindle.track('once');
  await rekindle.flush();
  expect(items()).toHaveLength(1);
  await vi.waitFor(() => expect(app.listeners).toHaveLength(1));
});

test('the bridge reports tokens and messages until dispose', async () => {
  const callbacks: { token?: (token: string) => void; received?: (message: unknown) => void } = {};
  const stopped = vi.fn();
  const push = {
    onToken: (run: (token: string) => void) => ((callbacks.token = run), stopped),
    onReceived: (run: (message: unknown) => void) => ((callbacks.received = run), stopped),
    onOpened: () => {
      throw new Error('not this library');
    },
  };
  vi.spyOn(console, 'error').mockReturnValue();
  const rekindle = await started(slowStorage(), { push });
  callbacks.token!('new');
  callbacks.received!({ request: { content: { data: { messageId: 'm1' } } } });
  await vi.waitFor(() =>
    expect(sent.at(-1)).toMatchObject({ method: 'POST', body: { token: 'new', platform: 'IOS' } }),
  );
  await rekindle.flush();
  expect(items().map((item) => [item.event, item.properties])).toEqual([['push_received', { messageId: 'm1' }]]);
  rekindle.dispose();
  expect(stopped).toHaveBeenCalledTimes(2);
});

test('a token renewed by the library does not undo an opt-out', async () => {
  let onToken: (token: string) => void = () => {};
  const rekindle = await started(slowStorage(), {
    push: { onToken: (run: (token: string) => void) => void (onToken = run), getToken: async () => 'first' },
  });
  await rekindle.push.subscribe();
  expect(await rekindle.push.optOut()).toBe(true);
  onToken('second');
  await rekindle.flush();
  expect([rekindle.push.isEnabled(), sent.map(({ method }) => method)]).toEqual([false, ['POST', 'DELETE']]);
  expect(await rekindle.push.optIn()).toBe(true);
  expect(sent.at(-1)).toMatchObject({ method: 'POST', body: { token: 'second' } });
});

test('items are sent with a failing storage and without storage', async () => {
  const broken = {
    ...slowStorage(),
    getAllKeys: () => Promise.reject(new Error('disk')),
    setItem: () => Promise.reject(new Error('disk')),
  };
  for (const storage of [broken, undefined]) {
    const rekindle = await started(storage);
    rekindle.track('a');
    await rekindle.flush();
  }
  expect(items()).toHaveLength(2);
});

test('a stored part that cannot be read does not prevent reading the others', async () => {
  const storage = slowStorage(
    new Map([
      ['rekindle.p.queue.old.0', '[]'],
      ['rekindle.p.identity', '{"anonymousId":"a","userId":"ada"}'],
    ]),
  );
  const { getItem } = storage;
  storage.getItem = (key) => (key.includes('queue') ? Promise.reject(new Error('too large a row')) : getItem(key));
  const rekindle = await started(storage);
  expect(rekindle.getUserId()).toBe('ada');
});

test('lifecycle: the background state sends items; an incoming call is no background state', async () => {
  const rekindle = await started(slowStorage(), { autoTrackLifecycle: true });
  setAppState('inactive');
  setAppState('active');
  setAppState('background');
  await vi.waitFor(() => expect(items().map((item) => item.event)).toEqual(['app_opened', 'app_backgrounded']));
  setAppState('active');
  await rekindle.flush();
  expect(items().at(-1)!.event).toBe('app_opened');
  rekindle.dispose();
  expect(app.listeners).toHaveLength(0);
});

test('screens of React Navigation are recorded once each, with the name that the app returns', async () => {
  const rekindle = await started();
  let route: Route = { name: 'Home', key: 'Home-1' };
  let changed = () => {};
  let ready = false;
  const ref = {
    isReady: () => ready,
    getCurrentRoute: () => route,
    addListener: (_: 'state', run: () => void) => {
      changed = run;
      return () => (changed = () => {});
    },
  };
  const observer = rekindle.createNavigatorObserver({
    extractScreenName: ({ name, params }) => (name === 'Secret' ? null : `${name}${params ? ' of one' : ''}`),
  });
  const stop = observer.observe(ref);
  ready = true;
  const steps: Route[] = [
    route,
    route,
    { name: 'Product', key: 'Product-1', params: { id: 1 } },
    { name: 'Product', key: 'Product-2', params: { id: 2 } },
    { name: 'Secret', key: 's' },
  ];
  for (route of steps) changed();
  stop();
  route = { name: 'After' };
  changed();
  await rekindle.flush();
  expect(items().map((item) => item.name)).toEqual(['Home', 'Product of one', 'Product of one']);
});

test('screens are not recorded if this is disabled', async () => {
  const rekindle = await started(undefined, { autoTrackScreens: false });
  rekindle.createNavigatorObserver().look({ getCurrentRoute: () => ({ name: 'Home' }), addListener: () => () => {} });
  rekindle.screen('By hand');
  await rekindle.flush();
  expect(items().map((item) => item.name)).toEqual(['By hand']);
});

test('push works with the app’s own library', async () => {
  const bridge = { requestPermission: vi.fn(async () => true), getToken: vi.fn(async () => 'apns-token') };
  const rekindle = await started(slowStorage(), { push: bridge });
  expect(rekindle.push.isEnabled()).toBe(false);
  rekindle.identify('ada');
  expect(await rekindle.push.requestPermission()).toBe(true);
  expect(sent.at(-1)).toMatchObject({ method: 'POST', body: { user_id: 'ada', token: 'apns-token', platform: 'IOS' } });
  expect(await rekindle.push.registerToken('fcm', 'ANDROID')).toBe(true);
  expect(sent.at(-1)!.body.platform).toBe('ANDROID');
  rekindle.push.received({ data: { messageId: 'm1' } });
  rekindle.push.opened({ notification: { request: { content: { data: { messageId: 'm2' } } } } });
  rekindle.push.opened({ data: { other: 1 } });
  rekindle.push.opened(null);
  await rekindle.reset();
  await vi.waitFor(() => expect(sent.some(({ method }) => method === 'DELETE')).toBe(true));
  expect(
    items()
      .slice(1)
      .map((item) => [item.event, item.properties]),
  ).toEqual([
    ['push_received', { messageId: 'm1' }],
    ['push_opened', { messageId: 'm2' }],
  ]);

  bridge.requestPermission.mockResolvedValue(false);
  expect(await (await started(undefined, { push: bridge })).push.requestPermission()).toBe(false);
  bridge.getToken.mockRejectedValue(new Error('no service'));
  expect(await (await started(undefined, { push: bridge })).push.subscribe()).toBe(false);
});

test.each([
  // React Native Firebase: FCM's own ID is next to the data.
  ['m1', { messageId: '0:17%fcm', from: '1', notification: { title: 'Hi' }, data: { messageId: 'm1' } }],
  // expo-notifications on iOS: `data` is only the payload's `body`.
  [
    'm2',
    {
      notification: {
        date: 1,
        request: {
          identifier: 'i',
          content: { title: 'Hi', data: {} },
          trigger: { type: 'push', payload: { aps: {}, messageId: 'm2' } },
        },
      },
    },
  ],
  // expo-notifications on Android.
  [
    'm3',
    {
      request: {
        content: { data: null },
        trigger: { type: 'push', remoteMessage: { messageId: '0:17%fcm', data: { messageId: 'm3' } } },
      },
    },
  ],
  [undefined, { messageId: '0:17%fcm', data: {} }],
])('the ID %s of a message is found in the format of its library', async (id, message) => {
  const rekindle = await started();
  rekindle.push.received(message);
  rekindle.push.opened(message);
  await rekindle.flush();
  const expected =
    id === undefined
      ? []
      : [
          ['push_received', id],
          ['push_opened', id],
        ];
  expect(items().map((item) => [item.event, (item.properties as { messageId: string }).messageId])).toEqual(expected);
});
