import { parsed } from './json';
import type { Platform } from './platform';

interface StoredIdentity {
  anonymousId: string;
  userId?: string;
  userHash?: string;
  userToken?: string;
  /** Whether the user has opted out of tracking. */
  optedOut?: boolean;
  push?: Device;
}

/** Push registration of this device. */
export interface Device {
  /** Missing until the push service has issued one. */
  token?: string;
  platform?: 'IOS' | 'ANDROID' | 'WEB';
  /** User for whom the server has the token; missing if it has none. */
  owner?: string;
  /** The user has opted out of push on this device. */
  off?: boolean;
  /** Unlinked until the next `identify`. */
  idle?: boolean;
}

/** The identity of this device's user, shared by all pages and kept across restarts. */
export class Identity {
  readonly key: string;
  /** Storage key of the consent. It is stored separately, so that no page can overwrite it with an outdated identity. */
  readonly #consentKey: string;
  readonly #platform: Platform;
  readonly #newId: () => string;
  #current: StoredIdentity;
  /** The previous user, whose queued items are sent with their own proof. */
  #previous: Partial<StoredIdentity> = {};
  /** Whether the last write failed, so the stored identity is outdated. */
  #unwritten = false;

  constructor(platform: Platform, key: string, newId: () => string, optOut: boolean, anonymousId?: string) {
    this.#platform = platform;
    this.key = key;
    this.#consentKey = `${key}.optout`;
    this.#newId = newId;
    const stored = this.#read();
    this.#current = stored ?? { anonymousId: anonymousId ?? newId(), optedOut: this.#consent() ?? optOut };
    // Never rewrites a stored identity here: another tab may be changing it.
    if (!stored) this.#write();
  }

  get(): Readonly<StoredIdentity> {
    return this.#current;
  }

  /** Returns the identity of the current or the previous user; empty for any other user. */
  of(userId: string | undefined): Partial<StoredIdentity> {
    return [this.#current, this.#previous].find((identity) => identity.userId === userId) ?? {};
  }

  set(change: Partial<StoredIdentity>): void {
    // Another tab may have changed it since the last read, such as by an opt-out.
    this.reload();
    this.#replace({ ...this.#current, ...change });
    this.#write();
  }

  #replace(identity: StoredIdentity): void {
    const { userId } = this.#current;
    if (userId !== undefined && userId !== identity.userId) this.#previous = this.#current;
    this.#current = identity;
  }

  /** Also stores it with the identity, where earlier SDK versions read it. */
  setOptedOut(optedOut: boolean): void {
    try {
      this.#platform.store?.set(this.#consentKey, optedOut ? '1' : '0');
    } catch {
      // Storage is full or forbidden, as in `#write`.
    }
    this.set({ optedOut });
  }

  /** Returns the storage keys. */
  get keys(): string[] {
    return [this.key, this.#consentKey];
  }

  /** Replaces the user with a new anonymous one. */
  reset(): void {
    this.set({ anonymousId: this.#newId(), userId: undefined, userHash: undefined, userToken: undefined });
  }

  /** Reads changes of other pages. */
  reload(): void {
    if (!this.#unwritten) this.#replace(this.#read() ?? this.#current);
    // An opt-out in another page applies even if this page cannot write.
    else if (this.#consent()) this.#current = { ...this.#current, optedOut: true };
  }

  #consent(): boolean | undefined {
    const stored = this.#platform.store?.get(this.#consentKey);
    return stored ? stored === '1' : undefined;
  }

  #read(): StoredIdentity | undefined {
    const value = parsed<StoredIdentity>(this.#platform.store?.get(this.key));
    if (typeof value?.anonymousId !== 'string') return undefined;
    return { ...(value as StoredIdentity), optedOut: this.#consent() ?? value.optedOut };
  }

  #write(): void {
    this.#unwritten = true;
    try {
      this.#platform.store?.set(this.key, JSON.stringify(this.#current));
      this.#unwritten = false;
    } catch {
      // Storage is full or forbidden: the identity is kept in memory.
    }
  }
}
