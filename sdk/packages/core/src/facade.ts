import type { Client, IdentifyOptions } from './client';
import type { CartItem, Checkout, Order, Product } from './ecommerce';
import type { Properties } from './items';
import type { Options } from './options';

/** Calls kept until `init`. */
const WAITING = 1_000;

/**
 * What an app or a page calls. It may be called before `init`: the calls wait. Nothing here throws into the caller's code,
 * except `init` where `debug` is on.
 */
export abstract class Facade<O extends Options> {
  #client: Client | undefined;
  #waiting: Array<(client: Client) => void> = [];
  #started = false;
  #disposed = false;

  /** Makes the client, at once or after its storage was read. */
  protected abstract start(options: O): Client | Promise<Client>;

  /** Begins. Called once; again it changes nothing. */
  init(options: O): void {
    if (this.#started) return warn('init was called before');
    try {
      const made = this.start(options);
      this.#started = true;
      this.#disposed = false;
      if ('then' in made) made.then((client) => this.#begin(client), fail);
      else this.#begin(made);
    } catch (error) {
      fail(error);
      if (options?.debug) throw error;
    }
  }

  #begin(client: Client): void {
    if (this.#disposed) return client.dispose();
    this.#client = client;
    for (const run of this.#waiting.splice(0)) guarded(() => run(client));
  }

  /** Runs with the client, now or once it is there. */
  protected with(run: (client: Client) => void): void {
    const client = this.#client;
    if (client) guarded(() => run(client));
    else if (this.#disposed) warn('called after dispose');
    else if (this.#waiting.length < WAITING) this.#waiting.push(run);
  }

  /** As `with`, for what has a result. */
  protected ask<T>(run: (client: Client) => T | Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.with((client) => {
        Promise.resolve()
          .then(() => run(client))
          .then(resolve, reject);
      });
    });
  }

  /** Links what happens on this device, before and after, to a person. */
  identify(userId: string, properties?: Properties, options?: IdentifyOptions): void {
    this.with((client) => client.identify(userId, properties, options));
  }

  /** Records an event. */
  track(event: string, properties?: Properties): void {
    this.with((client) => client.track(event, properties));
  }

  /** Records a screen view. */
  screen(name: string, properties?: Properties): void {
    this.with((client) => client.screen(name, properties));
  }

  /** Sets properties of the person, known or not; null removes one. */
  setUserProperties(properties: Properties): void {
    this.with((client) => client.setUserProperties(properties));
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
    await this.#client?.flush();
  }

  /** Forgets the person: what waits is sent, the device is unlinked from push, and a new anonymous id begins. */
  async reset(): Promise<void> {
    if (this.#client) await this.#client.reset();
    else this.with((client) => void client.reset());
  }

  /** The id given to `identify`; null before. */
  getUserId(): string | null {
    return this.#client?.getUserId() ?? null;
  }

  /** The id of whoever uses this device, known or not. Empty before `init`. */
  getAnonymousId(): string {
    return this.#client?.getAnonymousId() ?? '';
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

  /** Stops timers and listeners. What waits stays stored and goes out after the next start. `init` may follow. */
  dispose(): void {
    const client = this.#client;
    this.#disposed = true;
    this.#started = false;
    this.#client = undefined;
    this.#waiting = [];
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

function warn(text: string): void {
  console.warn('[rekindle]', text);
}
