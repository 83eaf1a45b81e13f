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
  const waiting = (names: string, prefix = ''): Record<string, unknown> => {
    const made: Record<string, unknown> = {};
    for (const name of names.split(' ')) made[name] = (...args: unknown[]) => new Promise((done) => calls.push([prefix + name, args, done]));
    return made;
  };
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
      let over = false;
      let stop: (() => void) | undefined;
      calls.push(['followInbox', [listener], (end: () => void) => (over ? end() : (stop = end))]);
      return () => {
        over = true;
        stop?.();
      };
    },
  };
  page.rekindle = stub;
}
