import { parsed } from './json';
import type { Platform } from './platform';

interface Known {
  anonymousId: string;
  userId?: string;
  userHash?: string;
  userToken?: string;
  /** Whether nothing is to be recorded. */
  optedOut?: boolean;
  push?: Device;
}

/** This device, as push reaches it. */
export interface Device {
  /** Missing until the push service has given one. */
  token?: string;
  platform?: 'IOS' | 'ANDROID' | 'WEB';
  /** Whom the server has it for; nobody where it is missing. */
  owner?: string;
  /** The person of this device wants no push. */
  off?: boolean;
  /** Nobody's until somebody is identified. */
  idle?: boolean;
}

/** Who uses this device: the same in every page, and after a restart. */
export class Identity {
  readonly key: string;
  /** Where consent is stored. By itself: nothing else ever writes it, so no page can undo it with what it read before. */
  readonly #consentKey: string;
  readonly #platform: Platform;
  readonly #fresh: () => string;
  #known: Known;
  /** The previous user, whose queued items are sent with their own proof. */
  #before: Partial<Known> = {};
  /** What is stored is older than what is known here. */
  #unwritten = false;

  constructor(platform: Platform, key: string, fresh: () => string, optOut: boolean, anonymousId?: string) {
    this.#platform = platform;
    this.key = key;
    this.#consentKey = `${key}.optout`;
    this.#fresh = fresh;
    const stored = this.#read();
    this.#known = stored ?? { anonymousId: anonymousId ?? fresh(), optedOut: this.#consent() ?? optOut };
    // What is stored stays as it is: another tab may be changing it just now.
    if (!stored) this.#write();
  }

  get(): Readonly<Known> {
    return this.#known;
  }

  /** What is known of the current user, or of the one before; nothing of anyone else. */
  of(userId: string | undefined): Partial<Known> {
    return [this.#known, this.#before].find((known) => known.userId === userId) ?? {};
  }

  set(change: Partial<Known>): void {
    // Another tab may have written since this one last read, for example that nothing is to be recorded.
    this.reload();
    this.#become({ ...this.#known, ...change });
    this.#write();
  }

  #become(known: Known): void {
    const { userId } = this.#known;
    if (userId !== undefined && userId !== known.userId) this.#before = this.#known;
    this.#known = known;
  }

  /** Also in the record of the person, where earlier versions of the SDK look. */
  setOptedOut(optedOut: boolean): void {
    try {
      this.#platform.store?.set(this.#consentKey, optedOut ? '1' : '0');
    } catch {
      // As below.
    }
    this.set({ optedOut });
  }

  /** What is stored, by key. */
  get keys(): string[] {
    return [this.key, this.#consentKey];
  }

  /** Somebody else, of whom nothing is known. */
  reset(): void {
    this.set({ anonymousId: this.#fresh(), userId: undefined, userHash: undefined, userToken: undefined });
  }

  /** As another page wrote it. */
  reload(): void {
    if (!this.#unwritten) this.#become(this.#read() ?? this.#known);
    // An opt-out elsewhere holds also where the storage is full.
    else if (this.#consent()) this.#known = { ...this.#known, optedOut: true };
  }

  #consent(): boolean | undefined {
    const stored = this.#platform.store?.get(this.#consentKey);
    return stored ? stored === '1' : undefined;
  }

  #read(): Known | undefined {
    const value = parsed<Known>(this.#platform.store?.get(this.key));
    if (typeof value?.anonymousId !== 'string') return undefined;
    return { ...(value as Known), optedOut: this.#consent() ?? value.optedOut };
  }

  #write(): void {
    this.#unwritten = true;
    try {
      this.#platform.store?.set(this.key, JSON.stringify(this.#known));
      this.#unwritten = false;
    } catch {
      // Full or forbidden: it holds until the page goes.
    }
  }
}
