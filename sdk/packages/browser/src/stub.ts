/** What stands for the SDK until it is loaded: calls wait in their order. */
export interface Stub {
  calls: Array<[name: string, args: unknown[]]>;
}

const page = window as unknown as { rekindle?: unknown };
if (!page.rekindle) {
  const calls: Stub['calls'] = [];
  const stub: Record<string, unknown> = { calls };
  const names =
    'init identify track screen setUserProperties productViewed addedToCart removedFromCart checkoutStarted orderCompleted flush reset optOutTracking optInTracking dispose';
  for (const name of names.split(' ')) stub[name] = (...args: unknown[]) => void calls.push([name, args]);
  page.rekindle = stub;
}
