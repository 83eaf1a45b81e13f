/** Replaces the SDK until it is loaded. Calls are queued in order, and their promises resolve after it is loaded. */
export interface Stub {
  calls: Array<[name: string, args: unknown[], done: (result: never) => void, calledAt: number]>;
  /** Number of calls that were not kept. */
  lost?: number;
  /** Anonymous ID for a browser that has none yet. */
  anonymousId?: string;
}

// `globalThis`, so that loading it without a page has no effect.
const page = globalThis as { rekindle?: unknown; document?: unknown };
const calls: Stub['calls'] = [];
const queued =
  (name: string) =>
  (...args: unknown[]) =>
    new Promise((done: (result?: unknown) => void) => {
      // If the script is blocked, `flush` and `reset` must still resolve, and the calls must not fill the memory.
      if (/flu|res/.test(name)) done();
      if (!calls[999]) calls.push([name, args, done, Date.now()]);
      else stub.lost = -~stub.lost!;
    });
const no = () => false;
const push: Record<string, unknown> = { isEnabled: no };
const stub: Stub & Record<string, unknown> = {
  calls,
  push,
  hasOptedOutTracking: no,
  droppedItems: () => 0,
  getUserId: () => null,
  getAnonymousId: () => (stub.anonymousId ??= crypto.getRandomValues(new Uint32Array(4)).join('-')),
  followInbox: (listener: unknown) => {
    const following = queued('followInbox')(listener) as Promise<() => void>;
    return () => following.then((stop) => stop());
  },
};
const CALLS =
  'init identify track screen setUserProperties productViewed addedToCart removedFromCart checkoutStarted orderCompleted flush reset markRead feed optOutTracking optInTracking dispose inbox';
for (const name of CALLS.split(' ')) stub[name] = queued(name);
for (const name of 'requestPermission registerToken subscribe optOut optIn'.split(' '))
  push[name] = queued(`push.${name}`);
if (page.document) page.rekindle ??= stub;
