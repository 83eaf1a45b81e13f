import type { Client, IdentifyOptions } from './client';
import { type DropReason, warn } from './drops';
import type { CartItem, Checkout, Order, Product } from './ecommerce';
import type { Properties } from './items';
import { toJson } from './json';
import type { Options } from './options';

/** Maximum calls kept until `init`. */
const MAX_PENDING_CALLS = 1_000;
const LOST = 'called after dispose, or more than 1,000 times before init';

/**
 * The SDK's calls. Calls made before `init` are kept until then. No call throws into the caller's code, except `init` with `debug`.
 */
export abstract class Facade<O extends Options> {
  #client: Client | undefined;
  /** The client that `init` created, or a promise of it. */
  #created: Client | Promise<Client> | undefined;
  #pending: Array<[run: (client: Client) => void, calledAt: number, otherwise?: () => void]> = [];
  #disposed = false;
  /** Number of calls that were not kept. */
  protected lost = 0;
  #anonymousId: string | undefined;
  /** Time of the call being replayed, in milliseconds since 1970; undefined for calls made now. */
  protected calledAt: number | undefined;

  /** Creates the client, after reading its storage if that is asynchronous. Throws if the options are invalid. */
  protected abstract start(options: O): Client | Promise<Client>;

  /** Returns a new random ID. */
  protected abstract fresh(): string;

  /** Anonymous ID for a device that has none yet: the one returned before `init`, if any. */
  protected get anonymousId(): string {
    return (this.#anonymousId ??= this.fresh());
  }

  /** Starts the SDK. Further calls have no effect. */
  init(options: O): void {
    if (this.#created) return warn('init was already called');
    try {
      const created = (this.#created = this.start(options));
      this.#disposed = false;
      if ('then' in created) created.then((client) => this.#activate(created, client), logError);
      else this.#activate(created, created);
    } catch (error) {
      logError(error);
      if (options?.debug) throw error;
    }
  }

  #activate(created: Client | Promise<Client>, client: Client): void {
    if (this.#created !== created) return client.dispose();
    this.#client = client;
    if (this.lost) client.drops.add('not_initialized', LOST, undefined, this.lost);
    this.lost = 0;
    for (const [run, calledAt, otherwise] of this.#pending.splice(0)) {
      this.calledAt = calledAt;
      this.with(run, otherwise);
    }
  }

  /** Runs with the client, now or once it exists; runs `otherwise` if there will be none. */
  protected with(run: (client: Client) => void, otherwise?: () => void): void {
    const client = this.#client;
    const { calledAt } = this;
    // Applies to this call only, not to calls that it makes.
    this.calledAt = undefined;
    if (client) {
      client.calledAt = calledAt;
      runSafely(() => run(client));
      client.calledAt = undefined;
    } else if (this.#disposed || this.#pending.length >= MAX_PENDING_CALLS) {
      if (otherwise) otherwise();
      else if (!this.lost++) warn(LOST);
    } else this.#pending.push([run, calledAt ?? Date.now(), otherwise]);
  }

  /** Like `with`, for calls with a result. Rejects if there will be no client. */
  protected ask<T>(run: (client: Client) => T | Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.with(
        (client) => void (async () => run(client))().then(resolve, reject),
        () => reject(new Error('disposed')),
      );
    });
  }

  /** Like `with`, for recording calls. A call that is kept keeps a copy of its current properties. */
  #record(properties: Properties | undefined, run: (client: Client, properties?: Properties) => void): void {
    const text = !this.#client && properties && toJson(properties);
    // The client reports properties that cannot be serialized.
    const kept = text ? (JSON.parse(text) as Properties) : properties;
    this.with((client) => run(client, kept));
  }

  /** Links past and future events on this device to a user. */
  identify(userId: string, properties?: Properties, options?: IdentifyOptions): void {
    this.#record(properties, (client, kept) => client.identify(userId, kept, options));
  }

  /** Records an event. */
  track(event: string, properties?: Properties): void {
    this.#record(properties, (client, kept) => client.track(event, kept));
  }

  /** Records a screen view. */
  screen(name: string, properties?: Properties): void {
    this.#record(properties, (client, kept) => client.screen(name, kept));
  }

  /** Sets properties of the user, identified or anonymous. `null` removes a property. */
  setUserProperties(properties: Properties): void {
    this.#record(properties, (client, kept) => client.setUserProperties(kept as Properties));
  }

  productViewed(product: Product): void {
    this.track('product_viewed', product);
  }

  addedToCart(item: CartItem): void {
    this.track('added_to_cart', item);
  }

  removedFromCart(item: CartItem): void {
    this.track('removed_from_cart', item);
  }

  checkoutStarted(checkout: Checkout): void {
    this.track('checkout_started', checkout);
  }

  orderCompleted(order: Order): void {
    this.track('order_completed', order);
  }

  /** Sends queued items. Resolves when they are sent or the attempt has failed; failed items are retried later. */
  async flush(): Promise<void> {
    if (this.#created) await this.ask((client) => client.flush()).catch(() => undefined);
  }

  /** Logs the user out: sends queued items, unlinks the device from push, and creates a new anonymous ID. */
  async reset(): Promise<void> {
    const done = this.ask((client) => client.reset()).catch(() => undefined);
    // Before `init` there is nothing to wait for.
    if (this.#created) await done;
  }

  /** Returns the ID passed to `identify`, or `null` before that. */
  getUserId(): string | null {
    return this.#client?.getUserId() ?? null;
  }

  /** Returns the anonymous ID of this device. Before `init` has read the storage: the ID that a new device would get. */
  getAnonymousId(): string {
    return this.#client?.getAnonymousId() ?? this.anonymousId;
  }

  /** Stops recording and deletes queued items. Persists across restarts. */
  optOutTracking(): void {
    this.with((client) => client.optOutTracking());
  }

  optInTracking(): void {
    this.with((client) => client.optInTracking());
  }

  hasOptedOutTracking(): boolean {
    return this.#client?.hasOptedOutTracking() ?? false;
  }

  /** Returns the number of items dropped since the page or app started, for one reason or in total. */
  droppedItems(reason?: DropReason): number {
    return this.#client?.droppedItems(reason) ?? 0;
  }

  /** Stops timers and listeners. Queued items stay stored and are sent after the next start. `init` may be called again. */
  dispose(): void {
    const client = this.#client;
    this.#disposed = true;
    this.#created = this.#client = undefined;
    this.#anonymousId = client?.getAnonymousId();
    for (const [, , otherwise] of this.#pending.splice(0)) otherwise?.();
    if (client) runSafely(() => client.dispose());
  }
}

function runSafely(run: () => void): void {
  try {
    run();
  } catch (error) {
    logError(error);
  }
}

function logError(error: unknown): void {
  console.error('[rekindle]', error instanceof Error ? error.message : error);
}
