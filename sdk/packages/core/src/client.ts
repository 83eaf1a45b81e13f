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

/** What `identify` takes beside the properties. */
export interface IdentifyOptions {
  /** HMAC-SHA256 of the user id under the project's identity secret, in hex. Does not expire: prefer `userToken`. */
  userHash?: string;
  /**
   * Where identity verification is on: a JWT from your server, signed with HS256 under the project's identity secret, with `sub` (the
   * user id) and `exp`; or a function that returns one. It is called when the server refuses the token, or wants one.
   */
  userToken?: string | UserTokenProvider;
}

const NAME = 'names and ids are 1–200 characters of text';
const OBJECT = 'properties are an object';
/** Characters of an item without its properties, about. */
const ENVELOPE = 300;

/** `changed` is what another page did, or a change of consent; the others are as they are called. */
type Occasion = 'identify' | 'reset' | 'changed' | 'hide' | 'show' | 'online' | 'dispose';

/** Records what happens and says who it was. One for each project in a page or app. */
export class Client {
  readonly identity: Identity;
  readonly drops: Drops;
  readonly proofs: Proofs;
  /** When what is recorded now has happened, where that was not now: milliseconds since 1970. */
  calledAt: number | undefined;
  readonly #queue: Queue;
  readonly #sender: Sender;
  readonly #uuid: () => string;
  readonly #listeners = new Set<readonly [Occasion, (() => void)?]>();
  #ended = false;

  constructor(
    readonly settings: Settings,
    readonly platform: Platform,
    /** Of a device that has none yet. */
    anonymousId?: string,
  ) {
    const prefix = `rekindle.${settings.projectId}.`;
    this.#uuid = uuids(platform.now, platform.random);
    this.identity = new Identity(platform, `${prefix}identity`, this.#uuid, settings.optOutByDefault, anonymousId);
    this.drops = new Drops(settings.debug, settings.onDrop);
    this.#queue = new Queue(platform, `${prefix}queue.`, (count) =>
      this.drops.add('queue_full', 'too many items wait; the oldest were dropped', undefined, count),
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
      this.#forget();
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
    if (!isName(event)) return this.drops.add('invalid_name', NAME, event);
    this.#add({ type: 'track', event }, properties);
  }

  /** Records a screen view. */
  screen(name: string, properties?: Properties): void {
    if (!isName(name)) return this.drops.add('invalid_name', NAME, name);
    this.#add({ type: 'screen', name }, properties);
  }

  /** Links what happens on this device, before and after, to a person. */
  identify(userId: string, properties?: Properties, options?: IdentifyOptions): void {
    if (typeof userId === 'number') userId = String(userId);
    if (!isName(userId)) return this.drops.add('invalid_name', NAME, userId);
    // Another page may have identified somebody just now.
    this.identity.reload();
    const { userId: before } = this.identity.get();
    // What somebody else did on this device stays theirs.
    if (before !== undefined && before !== userId) this.identity.reset();
    const { userHash, userToken } = options ?? {};
    if (typeof userToken === 'function') this.proofs.provider = userToken;
    this.identity.set({ userId, ...(isProof(userHash) && { userHash }), ...(isProof(userToken) && { userToken }) });
    this.#add({ type: 'identify' }, properties);
    // Sends at once what waited for the token.
    if (userToken) this.#sender.online();
    this.#tell('identify');
  }

  /** Sets properties of the person, known or not; null removes one. */
  setUserProperties(properties: Properties): void {
    if (typeof properties !== 'object' || properties === null)
      return this.drops.add('invalid_properties', OBJECT, properties);
    this.#add({ type: 'identify' }, properties);
  }

  /** Sends what waits. Resolves when that is done or has failed; what failed is sent later. */
  flush(): Promise<void> {
    return this.#ended ? Promise.resolve() : this.#sender.flush();
  }

  /** Sends items that were recorded elsewhere on this device, unless nothing is to be recorded. */
  resend(items: Item[]): void {
    if (this.hasOptedOutTracking()) return;
    this.#queue.add(items);
    void this.flush();
  }

  /** Forgets the person: what waits is sent, the device is unlinked from push, and a new anonymous id begins. */
  reset(): Promise<void> {
    const sent = this.flush();
    this.#tell('reset');
    this.identity.reset();
    return sent;
  }

  /** The id given to `identify`; null before. */
  getUserId(): string | null {
    return this.identity.get().userId ?? null;
  }

  getAnonymousId(): string {
    return this.identity.get().anonymousId;
  }

  /** Records nothing any more, and forgets what waits. Kept over restarts. */
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

  /** Items that were dropped, for one reason or for all. */
  droppedItems(reason?: DropReason): number {
    return this.drops.count(reason);
  }

  /** Stops timers and listeners. What waits stays stored and goes out after the next start. */
  dispose(): void {
    if (this.#ended) return;
    this.#sender.hide();
    this.#ended = true;
    this.#sender.end();
    this.#queue.close();
    this.#tell('dispose');
    this.#listeners.clear();
  }

  /** Runs whenever it happens; `reset` while the person is still known. Returns how to stop. */
  on(occasion: Occasion, run?: () => void): () => void {
    const listener = [occasion, run] as const;
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #tell(occasion: Occasion): void {
    for (const [of, run] of this.#listeners) if (of === occasion) run?.();
  }

  #changed(): void {
    this.#forget();
    this.#tell('changed');
  }

  /** What waits of somebody who wants nothing recorded, here or in another page, is never sent. */
  #forget(): void {
    if (this.hasOptedOutTracking()) this.#queue.clear();
  }

  #online(): void {
    this.#sender.online();
    this.#tell('online');
  }

  #hidden(): void {
    if (this.settings.autoTrackLifecycle) this.track('app_backgrounded');
    this.#sender.hide();
    this.#tell('hide');
  }

  #shown(): void {
    // A page that was put away has not heard of what others wrote.
    this.identity.reload();
    this.#forget();
    if (this.settings.autoTrackLifecycle) this.track('app_opened');
    this.#tell('show');
  }

  #add(what: Pick<Item, 'type' | 'event' | 'name'>, properties?: Properties): void {
    const { anonymousId, userId, userHash, optedOut } = this.identity.get();
    if (optedOut || this.#ended) return;
    if (
      properties !== undefined &&
      (typeof properties !== 'object' || properties === null || Array.isArray(properties))
    ) {
      return this.drops.add('invalid_properties', OBJECT, properties);
    }
    const text = toJson(properties ?? {});
    if (text === undefined) return this.drops.add('invalid_properties', 'the properties cannot be read', what);
    if (text === TOO_LARGE || (text.length * 3 > PROPERTIES_BYTES && bytes(text) > PROPERTIES_BYTES)) {
      return this.drops.add('too_large', 'properties are at most 32 KiB of JSON', what);
    }
    const time = this.calledAt ?? this.platform.now();
    // Written in slices after the task: a page may record thousands in one.
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
      // The properties are text already.
      return `${JSON.stringify(item).slice(0, -1)},"properties":${text}}`;
    };
    this.#queue.push(json, text.length + ENVELOPE, userId);
    this.platform.log('debug', what, properties);
    this.#sender.schedule();
  }
}
