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

/** The full SDK: events, users, web push, inbox and news. */
export class Rekindle extends Events<WebOptions> {
  #push: WebPush | undefined;

  readonly push: PushCalls = {
    isEnabled: () => this.#push?.isEnabled() ?? false,
    requestPermission: () => this.#withPush((push) => push.requestPermission()),
    subscribe: () => this.#withPush((push) => push.subscribe()),
    registerToken: (subscription) => this.#withPush((push) => push.registerToken(subscription)),
    optOut: () => this.#withPush((push) => push.optOut()),
    optIn: () => this.#withPush((push) => push.optIn()),
  };

  /** Returns the in-app messages of the identified user. */
  inbox(): Promise<InboxItem[]> {
    return this.ask((client) => new Content(client).inbox());
  }

  /** Reports changes of the inbox while the page is visible. Returns a function that stops it. */
  followInbox(listener: (change: InboxChange) => void): () => void {
    return followInboxSoon((run) => this.with(run), listener);
  }

  markRead(id: string): Promise<void> {
    return this.ask((client) => new Content(client).markRead(id));
  }

  /** Returns the published news. */
  feed(): Promise<NewsItem[]> {
    return this.ask((client) => new Content(client).feed());
  }

  protected override start(options: WebOptions): Client {
    const client = super.start(options);
    this.#push = new WebPush(client, options.push ?? {});
    return client;
  }

  #withPush(run: (push: WebPush) => Promise<boolean>): Promise<boolean> {
    return this.ask(() => (this.#push ? run(this.#push) : false)).catch(() => false);
  }
}

/** Calls resolve to whether they succeeded; none rejects. */
export interface PushCalls {
  /** Whether messages reach this browser. */
  isEnabled(): boolean;
  /** Asks the user for permission, and subscribes if they grant it. Call it from a click. */
  requestPermission(): Promise<boolean>;
  /** Subscribes this browser; the user must have granted permission. */
  subscribe(): Promise<boolean>;
  /** Registers a subscription that was created elsewhere, as JSON. */
  registerToken(subscription: string): Promise<boolean>;
  /** Stops push to this browser until `optIn`. */
  optOut(): Promise<boolean>;
  optIn(): Promise<boolean>;
}

const rekindle: Rekindle = new Rekindle();
export { rekindle };
