/** What stands for the SDK until it is loaded: calls wait in their order, and what they return comes when it is there. */
export interface Stub {
  calls: Array<[name: string, args: unknown[], done: (result: never) => void]>;
  /** Of a browser that has none yet. */
  anonymousId?: string;
}

// `globalThis`, so that loading it where there is no page does no harm.
const page = globalThis as { rekindle?: unknown };
if (!page.rekindle && typeof document !== 'undefined') {
  const calls: Stub['calls'] = [];
  const queued =
    (name: string) =>
    (...args: unknown[]) =>
      new Promise((done: (result?: unknown) => void) => {
        // Where the script is blocked, what is waited for must not hang, nor calls fill the memory.
        if (/flush|reset/.test(name)) done();
        if (calls.length < 1_000) calls.push([name, args, done]);
      });
  const waiting = (names: string, prefix = '') => Object.fromEntries(names.split(' ').map((name) => [name, queued(prefix + name)]));
  const no = () => false;
  const stub: Stub & Record<string, unknown> = {
    calls,
    ...waiting(
      'init identify track screen setUserProperties productViewed addedToCart removedFromCart checkoutStarted orderCompleted flush reset inbox markRead feed optOutTracking optInTracking dispose',
    ),
    push: { ...waiting('requestPermission subscribe registerToken optOut optIn', 'push.'), isEnabled: no },
    hasOptedOutTracking: no,
    droppedItems: () => 0,
    getUserId: () => null,
    getAnonymousId: () => (stub.anonymousId ??= crypto.getRandomValues(new Uint32Array(4)).join('-')),
    followInbox: (listener: unknown) => {
      const following = queued('followInbox')(listener) as Promise<(() => void) | undefined>;
      return () => void following.then((stop) => stop?.());
    },
  };
  page.rekindle = stub;
}
