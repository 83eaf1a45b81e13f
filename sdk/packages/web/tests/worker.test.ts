import { beforeEach, expect, test, vi } from 'vitest';
import { pending, recall, remember } from '../src/worker/memory';
import { report, sendReports } from '../src/worker/report';
import { serve } from '../src/worker/sw';

/** The browser's cache, in memory. */
class Cache {
  entries = new Map<string, string>();
  async put(key: string, response: Response) {
    this.entries.set(key, await response.text());
  }
  async match(key: string | { url: string }) {
    const text = this.entries.get(typeof key === 'string' ? key : key.url);
    return text === undefined ? undefined : new Response(text);
  }
  async keys() {
    return [...this.entries.keys()].map((url) => ({ url }));
  }
  async delete(key: string) {
    return this.entries.delete(key);
  }
}

interface Sent {
  url: string;
  batch?: Array<{ id: string; event: string; user_id?: string }>;
  token?: string;
  user_id?: string;
}

let sent: Sent[];
let answer: (batch: NonNullable<Sent['batch']>) => Response | Promise<Response>;
const accepted = () => new Response('{"processed":1,"errors":0}', { status: 202 });
const who = {
  apiUrl: 'https://rk.example/api/v1',
  apiKey: 'pk_live_x',
  anonymousId: 'anon',
  userId: 'ada',
  serverKey: 'key',
};

beforeEach(async () => {
  const cache = new Cache();
  let last: Promise<unknown> = Promise.resolve();
  const request = (_: string, run: () => Promise<unknown>) => (last = last.then(run));
  vi.stubGlobal('navigator', { locks: { request } });
  sent = [];
  answer = accepted;
  vi.stubGlobal('caches', { open: async () => cache });
  vi.stubGlobal('fetch', async (url: string, init: { body: string }) => {
    const body = { url, ...(JSON.parse(init.body) as object) } as Sent;
    sent.push(body);
    return answer(body.batch ?? []);
  });
  await remember(who);
});

const pendingIds = async () => (await pending()).reports.map((each) => (each as { id: string }).id);

test.each([
  ['a lost connection', () => Promise.reject(new TypeError('network'))],
  ['a server error', () => new Response('oops', { status: 500 })],
  ['a login page', () => new Response('<title>Sign in</title>')],
])('%s: the report is kept and sent with the next one', async (_, failing) => {
  answer = failing;
  await report('1', 'push_received', 'm1');
  expect(await pendingIds()).toEqual(['1']);
  answer = accepted;
  await report('2', 'push_opened', 'm1');
  expect(sent.at(-1)!.batch!.map(({ id, event, user_id }) => [id, event, user_id])).toEqual([
    ['1', 'push_received', 'ada'],
    ['2', 'push_opened', 'ada'],
  ]);
  expect(await pendingIds()).toEqual([]);
});

test('a rejected report does not affect the others', async () => {
  const warn = vi.spyOn(console, 'warn').mockReturnValue();
  answer = () => Promise.reject(new TypeError('network'));
  for (const id of ['1', '2', 'bad', '4', '5']) await report(id, 'push_received', id);
  const recorded: string[] = [];
  answer = (batch) => {
    if (batch.some(({ id }) => id === 'bad')) return new Response('{"status":400,"message":"no"}', { status: 400 });
    recorded.push(...batch.map(({ id }) => id));
    return accepted();
  };
  await sendReports();
  expect(recorded).toEqual(['1', '2', '4', '5']);
  expect(await pendingIds()).toEqual([]);
  expect(warn).toHaveBeenCalledOnce();
});

test('more reports than fit into a request are all sent', async () => {
  answer = () => Promise.reject(new TypeError('network'));
  for (let i = 0; i < 230; i++) await report(String(i), 'push_received', 'm');
  sent.length = 0;
  answer = accepted;
  await sendReports();
  expect(sent.map(({ batch }) => batch!.length)).toEqual([100, 100, 30]);
  expect(await pendingIds()).toEqual([]);
});

test('concurrent reports are not lost if one request fails', async () => {
  let calls = 0;
  answer = () => (calls++ === 0 ? Promise.reject(new TypeError('network')) : accepted());
  await Promise.all(['1', '2', '3'].map((id) => report(id, 'push_received', id)));
  await sendReports();
  expect(new Set(sent.flatMap((each) => each.batch!.map(({ id }) => id)))).toEqual(new Set(['1', '2', '3']));
  expect(await pendingIds()).toEqual([]);
});

test('concurrent changes are all kept', async () => {
  await Promise.all([remember({ serverKey: 'new' }), remember({ token: 't' }), remember({ userId: 'bob' })]);
  expect(await recall()).toMatchObject({ serverKey: 'new', token: 't', userId: 'bob', apiKey: 'pk_live_x' });
});

test('nothing is recorded after an opt-out, and reports have the current user', async () => {
  answer = () => Promise.reject(new TypeError('network'));
  await report('0', 'push_received', 'm0');
  answer = accepted;
  sent.length = 0;
  await remember({ optedOut: true });
  await report('1', 'push_received', 'm1');
  await sendReports();
  expect(sent).toEqual([]);
  expect(await pendingIds()).toEqual([]);
  await remember({ optedOut: false, userId: undefined });
  await report('2', 'push_received', 'm1');
  expect(sent[0]!.batch![0]!.user_id).toBeUndefined();
});

function worker(subscribe: () => Promise<unknown>) {
  const listeners = new Map<string, (event: never) => void>();
  serve({
    addEventListener: (type: string, run: (event: never) => void) => listeners.set(type, run),
    registration: { scope: 'https://shop.example/rekindle-push/', pushManager: { subscribe } },
  } as never);
  return async (type: string, event: object) => {
    let work: Promise<unknown> | undefined;
    listeners.get(type)!({ ...event, waitUntil: (promise: Promise<unknown>) => (work = promise) } as never);
    await work;
  };
}

test('a subscription replaced by the browser is registered, and created if the browser has none', async () => {
  const subscribe = vi.fn(async () => ({ endpoint: 'https://push.example/new' }));
  const dispatch = worker(subscribe);
  await dispatch('pushsubscriptionchange', { newSubscription: { endpoint: 'https://push.example/given' } });
  expect(sent[0]).toMatchObject({
    url: 'https://rk.example/api/v1/push-tokens',
    user_id: 'ada',
    token: '{"endpoint":"https://push.example/given"}',
  });
  await dispatch('pushsubscriptionchange', { newSubscription: null });
  expect(subscribe).toHaveBeenCalledWith({ userVisibleOnly: true, applicationServerKey: 'key' });
  expect((await recall())!.token).toBe('{"endpoint":"https://push.example/new"}');
});

test('without a user a subscription is only stored, for the next user', async () => {
  await remember({ unlinked: true });
  await worker(vi.fn())('pushsubscriptionchange', { newSubscription: { endpoint: 'https://push.example/given' } });
  expect(sent).toEqual([]);
  expect((await recall())!.token).toContain('given');
});
