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

/** How the app's own push library is asked. */
export interface PushBridge {
  /** Asks the person; whether they allow it. */
  requestPermission?: () => Promise<boolean>;
  /** The device's token: of APNs on iOS, of FCM on Android. */
  getToken?: () => Promise<string | null | undefined>;
  /** Calls back with each new token. Returns how to stop, as the two below do. */
  onToken?: (run: (token: string) => void) => Stop;
  /** Calls back with each message that comes while the app runs, whatever its shape. */
  onReceived?: (run: (message: unknown) => void) => Stop;
  /** Calls back with each message that the person opens. */
  onOpened?: (run: (message: unknown) => void) => Stop;
}

type Stop = (() => void) | void;

export interface ReactNativeOptions extends Options {
  /** Where the queue and the identity outlive the app, such as AsyncStorage. Without it they are lost when it ends. */
  storage?: AsyncStorage;
  push?: PushBridge;
}

/** Everything: events, people, push, inbox and news. */
export class Rekindle extends Facade<ReactNativeOptions> {
  #push: PushLink | undefined;
  #bridge: PushBridge = {};

  readonly push: PushCalls = {
    isEnabled: () => this.#push?.isEnabled() ?? false,
    requestPermission: () => this.#asked(() => this.#requested()),
    subscribe: () => this.#asked(() => this.#subscribed()),
    registerToken: (token, platform) => this.#asked((push) => push.register(token, platform ?? native())),
    optOut: () => this.#asked((push) => push.optOut()),
    optIn: () => this.#asked(async (push) => (await push.optIn()) || this.#subscribed()),
    received: (message) => this.#told(message, (push, id) => push.received(id)),
    opened: (message) => this.#told(message, (push, id) => push.opened(id)),
  };

  /** Records a screen view for each screen that the navigation shows. */
  createNavigatorObserver(options?: NavigatorObserverOptions): NavigatorObserver {
    return navigatorObserver((name) => this.ifAutomatic(name), options);
  }

  /** In-app messages of the identified person. */
  inbox(): Promise<InboxItem[]> {
    return this.ask((client) => new Content(client).inbox());
  }

  /** Tells of messages as they come, while the app is in front. Returns how to stop. */
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

  /** Resolves when the storage was read: from then on `getUserId` and `getAnonymousId` are those of before the restart. */
  ready(): Promise<void> {
    return this.ask(() => undefined);
  }

  protected start(options: ReactNativeOptions): Promise<Client> {
    return this.#started(options, settings(options));
  }

  async #started(options: ReactNativeOptions, checked: Settings): Promise<Client> {
    const store = options.storage
      ? await load(options.storage, `rekindle.${checked.projectId}.`).catch(() => null)
      : null;
    const client = new Client(checked, phone(checked, store), this.anonymousId);
    this.#bridge = options.push ?? {};
    this.#push = new PushLink(client);
    this.#watch(client);
    return client;
  }

  protected fresh(): string {
    return uuids(Date.now, random)();
  }

  /** What the push library tells by itself. */
  #watch(client: Client): void {
    const bridge = this.#bridge;
    const begins = [
      () => bridge.onToken?.((token) => void this.#asked((push) => push.register(token, native(), false))),
      () => bridge.onReceived?.((message) => this.push.received(message)),
      () => bridge.onOpened?.((message) => this.push.opened(message)),
    ];
    for (const begin of begins) {
      try {
        const stop = begin();
        if (typeof stop === 'function') client.on('dispose', stop);
      } catch (error) {
        client.platform.log('error', 'push: the bridge failed', error);
      }
    }
  }

  private ifAutomatic(name: string): void {
    this.with((client) => client.settings.autoTrackScreens && client.screen(name));
  }

  #asked(run: (push: PushLink) => Promise<boolean>): Promise<boolean> {
    return this.ask(() => (this.#push ? run(this.#push) : false)).catch(() => false);
  }

  #told(message: unknown, tell: (push: PushLink, id: string) => void): void {
    const id = messageId(message);
    if (id) this.with(() => this.#push && tell(this.#push, id));
  }

  async #requested(): Promise<boolean> {
    const allowed = (await this.#bridge.requestPermission?.()) ?? true;
    return allowed && this.#subscribed();
  }

  async #subscribed(): Promise<boolean> {
    const token = await this.#bridge.getToken?.();
    return token ? this.push.registerToken(token) : false;
  }
}

/** Whether each worked is its answer; none of them rejects. */
export interface PushCalls {
  /** Whether messages reach this device. */
  isEnabled(): boolean;
  /** Asks the person through the bridge, and registers the token where they allow it. */
  requestPermission(): Promise<boolean>;
  /** Registers the token that the bridge gives. */
  subscribe(): Promise<boolean>;
  /** The token that your push library gave; the platform is the phone's own where it is left out. */
  registerToken(token: string, platform?: 'IOS' | 'ANDROID'): Promise<boolean>;
  /** No push to this device until `optIn`. */
  optOut(): Promise<boolean>;
  optIn(): Promise<boolean>;
  /** Call it with the message that your push library received, whatever its shape. */
  received(message: unknown): void;
  /** Call it with the message that the person has opened. */
  opened(message: unknown): void;
}

function native(): 'IOS' | 'ANDROID' {
  return Platform.OS === 'ios' ? 'IOS' : 'ANDROID';
}

const LAYERS = ['data', 'payload', 'notification', 'request', 'content', 'trigger', 'remoteMessage'];

/**
 * The id lies in the message's own data, which APNs calls its payload; libraries wrap that in layers of theirs. Elsewhere a
 * `messageId` is one that the push service made.
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
