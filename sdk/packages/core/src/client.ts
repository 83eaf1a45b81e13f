import { type DropReason, Drops } from './drops';
import { Identity } from './identity';
import { type Item, type Properties, PROPERTIES_BYTES, isName } from './items';
import { TOO_LARGE, bytes, toJson } from './json';
import type { Settings } from './options';
import type { Platform } from './platform';
import { Proofs, type UserTokenProvider, isProof } from './proofs';
import { Queue } from './queue';
import { Sender } from './sender';
import { uuids } from './uuid';

/** Options of `identify`. */
export interface IdentifyOptions {
  /** HMAC-SHA256 of the user ID with the project's identity secret, in hex. It does not expire: prefer `userToken`. */
  userHash?: string;
  /**
   * For projects with identity verification: a JWT from your server, signed with HS256 and the project's identity secret, with `sub`
   * (the user ID) and `exp`; or a function that returns one. It is called when the server requires or rejects a token.
   */
  userToken?: string | UserTokenProvider;
}

const INVALID_NAME = 'names and IDs have 1–200 characters';
const INVALID_PROPERTIES = 'properties must be an object';
/** Approximate characters of an item without its properties. */
const ENVELOPE_SIZE = 300;

/** `changed`: another page changed the identity, or the consent changed. */
type ClientEvent = 'identify' | 'reset' | 'changed' | 'hide' | 'show' | 'online' | 'dispose';

/** Records events and manages the user's identity. A page or app has one per project. */
export class Client {
  readonly identity: Identity;
  readonly drops: Drops;
  readonly proofs: Proofs;
  /** Time of the call being replayed, in milliseconds since 1970; undefined for calls made now. */
  calledAt: number | undefined;
  readonly #queue: Queue;
  readonly #sender: Sender;
  readonly #uuid: () => string;
  readonly #listeners = new Set<readonly [ClientEvent, (() => void)?]>();
  #disposed = false;

  constructor(
    readonly settings: Settings,
    readonly platform: Platform,
    /** Used if the device has no anonymous ID yet. */
    anonymousId?: string,
  ) {
    const prefix = `rekindle.${settings.projectId}.`;
    this.#uuid = uuids(platform.now, platform.random);
    this.identity = new Identity(platform, `${prefix}identity`, this.#uuid, settings.optOutByDefault, anonymousId);
    this.drops = new Drops(settings.debug, settings.onDrop);
    this.#queue = new Queue(platform, `${prefix}queue.`, (count) =>
      this.drops.add('queue_full', 'queue is full; the oldest items were dropped', undefined, count),
    );
    this.proofs = new Proofs(this.identity, settings.apiKey, settings.userToken, () => this.#changed());
    this.#sender = new Sender(this.#queue, settings, platform, this.drops, this.proofs);
    this.on(
      'dispose',
      platform.watch({ hide: () => this.#hidden(), show: () => this.#shown(), online: () => this.#online() }),
    );
    const reload = () => {
      this.identity.reload();
      this.#changed();
    };
    for (const key of this.identity.keys) this.on('dispose', platform.onWritten?.(key, reload));
    const take = (instance: string) => {
      this.#queue.takeOver(instance);
      this.#clearIfOptedOut();
      if (this.#queue.length) this.#sender.schedule();
    };
    this.on(
      'dispose',
      platform.takeOver?.(() => this.#queue.others(), take),
    );
    if (settings.autoTrackLifecycle) this.track('app_opened');
  }

  /** Records an event. */
  track(event: string, properties?: Properties): void {
    if (!isName(event)) return this.drops.add('invalid_name', INVALID_NAME, event);
    this.#add({ type: 'track', event }, properties);
  }

  /** Records a screen view. */
  screen(name: string, properties?: Properties): void {
    if (!isName(name)) return this.drops.add('invalid_name', INVALID_NAME, name);
    this.#add({ type: 'screen', name }, properties);
  }

  /** Links past and future events on this device to a user. */
  identify(userId: string, properties?: Properties, options?: IdentifyOptions): void {
    if (typeof userId === 'number') userId = String(userId);
    if (!isName(userId)) return this.drops.add('invalid_name', INVALID_NAME, userId);
    // Another page may have identified a user just now.
    this.identity.reload();
    const { userId: before } = this.identity.get();
    // Earlier events on this device stay with the previous user.
    if (before !== undefined && before !== userId) this.identity.reset();
    const { userHash, userToken } = options ?? {};
    if (typeof userToken === 'function') this.proofs.provider = userToken;
    this.identity.set({ userId, ...(isProof(userHash) && { userHash }), ...(isProof(userToken) && { userToken }) });
    this.#add({ type: 'identify' }, properties);
    // Immediately sends items that waited for the token.
    if (userToken) this.#sender.online();
    this.#emit('identify');
  }

  /** Sets properties of the user, identified or anonymous. `null` removes a property. */
  setUserProperties(properties: Properties): void {
    if (typeof properties !== 'object' || properties === null)
      return this.drops.add('invalid_properties', INVALID_PROPERTIES, properties);
    this.#add({ type: 'identify' }, properties);
  }

  /** Sends queued items. Resolves when they are sent or the attempt has failed; failed items are retried later. */
  flush(): Promise<void> {
    return this.#disposed ? Promise.resolve() : this.#sender.flush();
  }

  /** Sends items recorded by the service worker, unless the user has opted out. */
  resend(items: Item[]): void {
    if (this.hasOptedOutTracking()) return;
    this.#queue.add(items);
    void this.flush();
  }

  /** Logs the user out: sends queued items, unlinks the device from push, and creates a new anonymous ID. */
  reset(): Promise<void> {
    const sent = this.flush();
    this.#emit('reset');
    this.identity.reset();
    return sent;
  }

  /** Returns the ID passed to `identify`, or `null` before that. */
  getUserId(): string | null {
    return this.identity.get().userId ?? null;
  }

  getAnonymousId(): string {
    return this.identity.get().anonymousId;
  }

  /** Stops recording and deletes queued items. Persists across restarts. */
  optOutTracking(): void {
    this.identity.setOptedOut(true);
    this.#changed();
  }

  optInTracking(): void {
    this.identity.setOptedOut(false);
    this.#changed();
  }

  hasOptedOutTracking(): boolean {
    return this.identity.get().optedOut === true;
  }

  /** Returns the number of dropped items, for one reason or in total. */
  droppedItems(reason?: DropReason): number {
    return this.drops.count(reason);
  }

  /** Stops timers and listeners. Queued items stay stored and are sent after the next start. */
  dispose(): void {
    if (this.#disposed) return;
    this.#sender.hide();
    this.#disposed = true;
    this.#sender.end();
    this.#queue.close();
    this.#emit('dispose');
    this.#listeners.clear();
  }

  /** Adds a listener; `reset` fires while the user is still known. Returns a function that removes the listener. */
  on(type: ClientEvent, run?: () => void): () => void {
    const listener = [type, run] as const;
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #emit(type: ClientEvent): void {
    for (const [of, run] of this.#listeners) if (of === type) run?.();
  }

  #changed(): void {
    this.#clearIfOptedOut();
    this.#emit('changed');
  }

  /** Deletes queued items if the user has opted out, here or in another page. */
  #clearIfOptedOut(): void {
    if (this.hasOptedOutTracking()) this.#queue.clear();
  }

  #online(): void {
    this.#sender.online();
    this.#emit('online');
  }

  #hidden(): void {
    if (this.settings.autoTrackLifecycle) this.track('app_backgrounded');
    this.#sender.hide();
    this.#emit('hide');
  }

  #shown(): void {
    // A page in the back/forward cache has missed writes of other pages.
    this.identity.reload();
    this.#clearIfOptedOut();
    if (this.settings.autoTrackLifecycle) this.track('app_opened');
    this.#emit('show');
  }

  #add(what: Pick<Item, 'type' | 'event' | 'name'>, properties?: Properties): void {
    const { anonymousId, userId, userHash, optedOut } = this.identity.get();
    if (optedOut || this.#disposed) return;
    if (
      properties !== undefined &&
      (typeof properties !== 'object' || properties === null || Array.isArray(properties))
    ) {
      return this.drops.add('invalid_properties', INVALID_PROPERTIES, properties);
    }
    const text = toJson(properties ?? {});
    if (text === undefined) return this.drops.add('invalid_properties', 'cannot read the properties', what);
    if (text === TOO_LARGE || (text.length * 3 > PROPERTIES_BYTES && bytes(text) > PROPERTIES_BYTES)) {
      return this.drops.add('too_large', 'properties exceed 32 KiB of JSON', what);
    }
    const time = this.calledAt ?? this.platform.now();
    // Serialized in slices after the task, because a page may record thousands of items in one task.
    const json = () => {
      const timestamp = new Date(time).toISOString();
      const item: Item = {
        ...what,
        id: this.#uuid(),
        timestamp,
        user_id: userId,
        anonymous_id: anonymousId,
        user_hash: userHash,
      };
      // The properties are already serialized.
      return `${JSON.stringify(item).slice(0, -1)},"properties":${text}}`;
    };
    this.#queue.push(json, text.length + ENVELOPE_SIZE, userId);
    this.platform.log('debug', what, properties);
    this.#sender.schedule();
  }
}
