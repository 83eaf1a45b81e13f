import { type Client, Content, type InboxChange, type InboxItem, type NewsItem, followInboxSoon } from '@rekindle/core';
import { Events, type WebOptions as EventsOptions } from './events';
import { WebPush, type WebPushOptions } from './push';

export type {
  CartItem,
  Checkout,
  Drop,
  DropReason,
  IdentifyOptions,
  InboxChange,
  InboxItem,
  NewsItem,
  Order,
  Product,
  Properties,
} from '@rekindle/core';
export type { WebPushOptions } from './push';

export interface WebOptions extends EventsOptions {
  push?: WebPushOptions;
}

/** Everything: events, people, web push, inbox and news. */
export class Rekindle extends Events<WebOptions> {
  #push: WebPush | undefined;

  readonly push: PushCalls = {
    isEnabled: () => this.#push?.isEnabled() ?? false,
    requestPermission: () => this.#asked((push) => push.requestPermission()),
    subscribe: () => this.#asked((push) => push.subscribe()),
    registerToken: (subscription) => this.#asked((push) => push.registerToken(subscription)),
    optOut: () => this.#asked((push) => push.optOut()),
    optIn: () => this.#asked((push) => push.optIn()),
  };

  /** In-app messages of the identified person. */
  inbox(): Promise<InboxItem[]> {
    return this.ask((client) => new Content(client).inbox());
  }

  /** Tells of messages as they come, while the page is to be seen. Returns how to stop. */
  followInbox(listener: (change: InboxChange) => void): () => void {
    return followInboxSoon((run) => this.with(run), listener);
  }

  markRead(id: string): Promise<void> {
    return this.ask((client) => new Content(client).markRead(id));
  }

  /** The published news. */
  feed(): Promise<NewsItem[]> {
    return this.ask((client) => new Content(client).feed());
  }

  protected override start(options: WebOptions): Client {
    const client = super.start(options);
    this.#push = new WebPush(client, options.push ?? {});
    return client;
  }

  #asked(run: (push: WebPush) => Promise<boolean>): Promise<boolean> {
    return this.ask(() => (this.#push ? run(this.#push) : false)).catch(() => false);
  }
}

/** Whether each worked is its answer; none of them rejects. */
export interface PushCalls {
  /** Whether messages reach this browser. */
  isEnabled(): boolean;
  /** Asks the person, and subscribes where they allow it. Call it from a click. */
  requestPermission(): Promise<boolean>;
  /** Subscribes this browser; the person must have allowed it. */
  subscribe(): Promise<boolean>;
  /** A subscription made elsewhere, as its JSON. */
  registerToken(subscription: string): Promise<boolean>;
  /** No push to this browser until `optIn`. */
  optOut(): Promise<boolean>;
  optIn(): Promise<boolean>;
}

const rekindle: Rekindle = new Rekindle();
export { rekindle };
