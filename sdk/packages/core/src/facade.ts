import type { Client, IdentifyOptions } from './client';
import { type DropReason, warn } from './drops';
import type { CartItem, Checkout, Order, Product } from './ecommerce';
import type { Properties } from './items';
import { toJson } from './json';
import type { Options } from './options';

/** Calls kept until `init`. */
const WAITING = 1_000;
const LOST = 'called after dispose, or more than 1,000 times before init';

/**
 * What an app or a page calls. It may be called before `init`: the calls wait. Nothing here throws into the caller's code,
 * except `init` where `debug` is on.
 */
export abstract class Facade<O extends Options> {
  #client: Client | undefined;
  /** What `init` made: the client, or one to come. */
  #made: Client | Promise<Client> | undefined;
  #waiting: Array<[run: (client: Client) => void, calledAt: number, otherwise?: () => void]> = [];
  #disposed = false;
  /** Calls that could not wait. */
  protected lost = 0;
  #anonymousId: string | undefined;
  /** When the next call was made, where that was before it could be taken: milliseconds since 1970. */
  protected calledAt: number | undefined;

  /** Makes the client, at once or after its storage was read; throws where the options are wrong. */
  protected abstract start(options: O): Client | Promise<Client>;

  /** A new id, as good as the place can make one. */
  protected abstract fresh(): string;

  /** The anonymous id of a device that has none yet: the one that was told before `init`, if one was. */
  protected get anonymousId(): string {
    return (this.#anonymousId ??= this.fresh());
  }

  /** Begins. Called once; again it changes nothing. */
  init(options: O): void {
    if (this.#made) return warn('init was called before');
    try {
      const made = (this.#made = this.start(options));
      this.#disposed = false;
      if ('then' in made) made.then((client) => this.#begin(made, client), fail);
      else this.#begin(made, made);
    } catch (error) {
      fail(error);
      if (options?.debug) throw error;
    }
  }

  #begin(made: Client | Promise<Client>, client: Client): void {
    if (this.#made !== made) return client.dispose();
    this.#client = client;
    if (this.lost) client.drops.add('not_initialized', LOST, undefined, this.lost);
    this.lost = 0;
    for (const [run, calledAt, otherwise] of this.#waiting.splice(0)) {
      this.calledAt = calledAt;
      this.with(run, otherwise);
    }
  }

  /** Runs with the client, now or once it is there; `otherwise` where none will be. */
  protected with(run: (client: Client) => void, otherwise?: () => void): void {
    const client = this.#client;
    const { calledAt } = this;
    // Of this call alone: what it calls is called now.
    this.calledAt = undefined;
    if (client) {
      client.calledAt = calledAt;
      guarded(() => run(client));
      client.calledAt = undefined;
    } else if (this.#disposed || this.#waiting.length >= WAITING) {
      if (otherwise) otherwise();
      else if (!this.lost++) warn(LOST);
    } else this.#waiting.push([run, calledAt ?? Date.now(), otherwise]);
  }

  /** As `with`, for what has a result; rejects where no client will be. */
  protected ask<T>(run: (client: Client) => T | Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.with(
        (client) => void (async () => run(client))().then(resolve, reject),
        () => reject(new Error('disposed')),
      );
    });
  }

  /** As `with`, for what is recorded: where it waits, with the properties as they are now. */
  #record(properties: Properties | undefined, run: (client: Client, properties?: Properties) => void): void {
    const text = !this.#client && properties && toJson(properties);
    // What cannot be written is refused by the client, in its own words.
    const kept = text ? (JSON.parse(text) as Properties) : properties;
    this.with((client) => run(client, kept));
  }

  /** Links what happens on this device, before and after, to a person. */
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

  /** Sets properties of the person, known or not; null removes one. */
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

  /** Sends what waits. Resolves when that is done or has failed; what failed is sent later. */
  async flush(): Promise<void> {
    if (this.#made) await this.ask((client) => client.flush()).catch(() => undefined);
  }

  /** Forgets the person: what waits is sent, the device is unlinked from push, and a new anonymous id begins. */
  async reset(): Promise<void> {
    const done = this.ask((client) => client.reset()).catch(() => undefined);
    // Before `init` there is nothing to wait for.
    if (this.#made) await done;
  }

  /** The id given to `identify`; null before. */
  getUserId(): string | null {
    return this.#client?.getUserId() ?? null;
  }

  /** The id of whoever uses this device, known or not. Before `init` has read the storage: the one that a new device will have. */
  getAnonymousId(): string {
    return this.#client?.getAnonymousId() ?? this.anonymousId;
  }

  /** Records nothing any more, and forgets what waits. Kept over restarts. */
  optOutTracking(): void {
    this.with((client) => client.optOutTracking());
  }

  optInTracking(): void {
    this.with((client) => client.optInTracking());
  }

  hasOptedOutTracking(): boolean {
    return this.#client?.hasOptedOutTracking() ?? false;
  }

  /** Items that were dropped, on this page or since the app began: for one reason, or for all. */
  droppedItems(reason?: DropReason): number {
    return this.#client?.droppedItems(reason) ?? 0;
  }

  /** Stops timers and listeners. What waits stays stored and goes out after the next start. `init` may follow. */
  dispose(): void {
    const client = this.#client;
    this.#disposed = true;
    this.#made = this.#client = undefined;
    this.#anonymousId = client?.getAnonymousId();
    for (const [, , otherwise] of this.#waiting.splice(0)) otherwise?.();
    if (client) guarded(() => client.dispose());
  }
}

function guarded(run: () => void): void {
  try {
    run();
  } catch (error) {
    fail(error);
  }
}

function fail(error: unknown): void {
  console.error('[rekindle]', error instanceof Error ? error.message : error);
}
