import {
  Client,
  Content,
  Facade,
  type InboxChange,
  type InboxItem,
  type NewsItem,
  type Options,
  PushLink,
  type Settings,
  followInboxSoon,
  settings,
  uuids,
} from '@rekindle/core';
import { Platform } from 'react-native';
import { phone, random } from './platform';
import { type NavigatorObserver, type NavigatorObserverOptions, navigatorObserver } from './screens';
import { type AsyncStorage, load } from './storage';

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
export type { NavigationRef, NavigatorObserver, NavigatorObserverOptions, Route } from './screens';
export type { AsyncStorage } from './storage';

/** Connects the SDK to the app's push library. */
export interface PushBridge {
  /** Asks the user for permission. Resolves to whether they granted it. */
  requestPermission?: () => Promise<boolean>;
  /** Returns the device's token: from APNs on iOS, from FCM on Android. */
  getToken?: () => Promise<string | null | undefined>;
  /** Calls `run` with each new token. Returns a function that stops it, as the two below do. */
  onToken?: (run: (token: string) => void) => Stop;
  /** Calls `run` with each message received while the app runs, in any format. */
  onReceived?: (run: (message: unknown) => void) => Stop;
  /** Calls `run` with each message that the user opens. */
  onOpened?: (run: (message: unknown) => void) => Stop;
}

type Stop = (() => void) | void;

export interface ReactNativeOptions extends Options {
  /** Storage that outlives the app, such as AsyncStorage. Without it the queue and the identity are lost when the app ends. */
  storage?: AsyncStorage;
  push?: PushBridge;
}

/** The full SDK: events, users, push, inbox and news. */
export class Rekindle extends Facade<ReactNativeOptions> {
  #push: PushLink | undefined;
  #bridge: PushBridge = {};

  readonly push: PushCalls = {
    isEnabled: () => this.#push?.isEnabled() ?? false,
    requestPermission: () => this.#withPush(() => this.#requestPermission()),
    subscribe: () => this.#withPush(() => this.#subscribe()),
    registerToken: (token, platform) => this.#withPush((push) => push.register(token, platform ?? native())),
    optOut: () => this.#withPush((push) => push.optOut()),
    optIn: () => this.#withPush(async (push) => (await push.optIn()) || this.#subscribe()),
    received: (message) => this.#report(message, (push, id) => push.received(id)),
    opened: (message) => this.#report(message, (push, id) => push.opened(id)),
  };

  /** Records a screen view for each screen shown by the navigation. */
  createNavigatorObserver(options?: NavigatorObserverOptions): NavigatorObserver {
    return navigatorObserver((name) => this.trackScreen(name), options);
  }

  /** Returns the in-app messages of the identified user. */
  inbox(): Promise<InboxItem[]> {
    return this.ask((client) => new Content(client).inbox());
  }

  /** Reports changes of the inbox while the app is in the foreground. Returns a function that stops it. */
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

  /** Resolves when the storage was read; then `getUserId` and `getAnonymousId` return the stored values. */
  ready(): Promise<void> {
    return this.ask(() => undefined);
  }

  protected start(options: ReactNativeOptions): Promise<Client> {
    return this.#createClient(options, settings(options));
  }

  async #createClient(options: ReactNativeOptions, checked: Settings): Promise<Client> {
    const store = options.storage
      ? await load(options.storage, `rekindle.${checked.projectId}.`).catch(() => null)
      : null;
    const client = new Client(checked, phone(checked, store), this.anonymousId);
    this.#bridge = options.push ?? {};
    this.#push = new PushLink(client);
    this.#listen(client);
    return client;
  }

  protected fresh(): string {
    return uuids(Date.now, random)();
  }

  /** Listens to the push library. */
  #listen(client: Client): void {
    const bridge = this.#bridge;
    const listeners = [
      () => bridge.onToken?.((token) => void this.#withPush((push) => push.register(token, native(), false))),
      () => bridge.onReceived?.((message) => this.push.received(message)),
      () => bridge.onOpened?.((message) => this.push.opened(message)),
    ];
    for (const listen of listeners) {
      try {
        const stop = listen();
        if (typeof stop === 'function') client.on('dispose', stop);
      } catch (error) {
        client.platform.log('error', 'push: the bridge failed', error);
      }
    }
  }

  private trackScreen(name: string): void {
    this.with((client) => client.settings.autoTrackScreens && client.screen(name));
  }

  #withPush(run: (push: PushLink) => Promise<boolean>): Promise<boolean> {
    return this.ask(() => (this.#push ? run(this.#push) : false)).catch(() => false);
  }

  #report(message: unknown, run: (push: PushLink, id: string) => void): void {
    const id = messageId(message);
    if (id) this.with(() => this.#push && run(this.#push, id));
  }

  async #requestPermission(): Promise<boolean> {
    const allowed = (await this.#bridge.requestPermission?.()) ?? true;
    return allowed && this.#subscribe();
  }

  async #subscribe(): Promise<boolean> {
    const token = await this.#bridge.getToken?.();
    return token ? this.push.registerToken(token) : false;
  }
}

/** Calls resolve to whether they succeeded; none rejects. */
export interface PushCalls {
  /** Whether messages reach this device. */
  isEnabled(): boolean;
  /** Asks the user for permission through the bridge, and registers the token if they grant it. */
  requestPermission(): Promise<boolean>;
  /** Registers the bridge's token. */
  subscribe(): Promise<boolean>;
  /** Registers a token of your push library. Default platform: that of the phone. */
  registerToken(token: string, platform?: 'IOS' | 'ANDROID'): Promise<boolean>;
  /** Stops push to this device until `optIn`. */
  optOut(): Promise<boolean>;
  optIn(): Promise<boolean>;
  /** Call it with each message that your push library received, in any format. */
  received(message: unknown): void;
  /** Call it with each message that the user opened. */
  opened(message: unknown): void;
}

function native(): 'IOS' | 'ANDROID' {
  return Platform.OS === 'ios' ? 'IOS' : 'ANDROID';
}

const LAYERS = ['data', 'payload', 'notification', 'request', 'content', 'trigger', 'remoteMessage'];

/**
 * Returns the message ID from the message's own data, which APNs calls payload; libraries wrap it in further layers. Elsewhere,
 * `messageId` is an ID of the push service.
 */
function messageId(message: unknown, layer = '', depth = 0): string | undefined {
  if (typeof message !== 'object' || message === null || depth > 5) return undefined;
  const fields = message as Record<string, unknown>;
  if ((layer === 'data' || layer === 'payload') && typeof fields.messageId === 'string') return fields.messageId;
  for (const next of LAYERS) {
    const found = messageId(fields[next], next, depth + 1);
    if (found) return found;
  }
  return undefined;
}

const rekindle: Rekindle = new Rekindle();
export { rekindle };
