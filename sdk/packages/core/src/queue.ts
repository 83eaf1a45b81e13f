import type { Item } from './items';
import { parsed } from './json';
import type { Platform, Store } from './platform';

/** Maximum items in one stored part, and so per write. */
const PART_ITEMS = 25;
/** Maximum items in memory; beyond it the oldest are dropped. */
export const MAX_ITEMS = 20_000;
/** Approximate maximum of JSON characters in memory. */
export const MAX_CHARACTERS: number = 8 * 1024 * 1024;
/** Maximum JSON characters in the storage; the page needs some of the quota, too. */
export const MAX_STORED: number = 2 * 1024 * 1024;
/** Calls within one task that write immediately. The rest is written in slices, which keeps the page responsive. */
const IMMEDIATE_WRITES = 100;
/** Parts written in one slice. */
const SLICE_PARTS = 20;

/** An item in the queue. */
export class QueuedItem {
  /** Sent or dropped. */
  gone?: boolean;

  #text: string | undefined;

  constructor(
    private readonly write: () => string,
    /** Approximate length of its JSON. */
    readonly size: number,
    /** ID of the identified user, if any. */
    readonly user: string | undefined,
  ) {}

  /** The JSON that is sent; serialized once, when needed. */
  get json(): string {
    return (this.#text ??= this.write());
  }
}

interface Part {
  readonly key: string;
  items: QueuedItem[];
  /** Number of characters in the storage. */
  stored: number;
}

/** Items to be sent, oldest first. They are stored before they are sent, and removed after the server has them. */
export class Queue {
  length = 0;
  readonly #store: Store | null;
  readonly #prefix: string;
  readonly #platform: Pick<Platform, 'store' | 'instance' | 'setTimer'>;
  readonly #onFull: (dropped: number) => void;
  #parts: Part[] = [];
  #nextPart = 0;
  #closed = false;
  #characters = 0;
  #stored = 0;
  /** Calls of this task that have written. */
  #writes = 0;
  #timerSet = false;
  /** Parts that are not stored yet: they wait for their slice or for free space. */
  readonly #unwritten = new Set<Part>();

  /** Keys are `<prefix><instance>.<number>`. */
  constructor(
    platform: Pick<Platform, 'store' | 'instance' | 'setTimer'>,
    prefix: string,
    onFull: (dropped: number) => void = () => undefined,
  ) {
    this.#platform = platform;
    this.#store = platform.store;
    this.#prefix = prefix;
    this.#onFull = onFull;
  }

  push(write: () => string, size: number, user?: string): void {
    let part = this.#parts.at(-1);
    if (!part || part.items.length >= PART_ITEMS) {
      part = { key: `${this.#prefix}${this.#platform.instance}.${this.#nextPart++}`, items: [], stored: 0 };
      this.#parts.push(part);
    }
    part.items.push(new QueuedItem(write, size, user));
    this.length++;
    this.#characters += size;
    if (this.#writes++ < IMMEDIATE_WRITES) this.#write(part);
    else this.#unwritten.add(part);
    this.#setTimer();
    let dropped = 0;
    while (this.length > MAX_ITEMS || this.#characters > MAX_CHARACTERS) {
      const oldest = this.#parts.shift()!;
      dropped += oldest.items.length;
      this.#replace(oldest, []);
    }
    if (dropped) this.#onFull(dropped);
  }

  /** Adds items that were recorded elsewhere, and stores them. */
  add(items: Item[]): void {
    for (const item of items) {
      const json = JSON.stringify(item);
      this.push(() => json, json.length, item?.user_id);
    }
    this.persist();
  }

  /** The oldest items, in order. */
  *[Symbol.iterator](): Generator<QueuedItem> {
    for (const part of this.#parts) yield* part.items;
  }

  remove(done: ReadonlySet<QueuedItem>): void {
    let remaining = done.size;
    for (const part of this.#parts) {
      if (!remaining) break;
      const rest = part.items.filter((item) => !done.has(item));
      const removed = part.items.length - rest.length;
      remaining -= removed;
      if (removed) this.#replace(part, rest);
    }
    this.#parts = this.#parts.filter((part) => part.items.length);
    this.persist(SLICE_PARTS);
  }

  clear(): void {
    this.remove(new Set(this));
  }

  /** Writes up to `max` parts that are not stored yet, oldest first. Returns whether more could be written. */
  persist(max: number = Infinity): boolean {
    for (const part of this.#unwritten) {
      if (max-- <= 0) return true;
      if (!this.#write(part)) break;
    }
    return false;
  }

  /** Stops writing. Other instances may take over the stored items. */
  close(): void {
    this.persist();
    this.#closed = true;
  }

  /** Returns other instances that have stored items. */
  others(): string[] {
    const names = this.#keys().map((key) => key.slice(this.#prefix.length).replace(/\.\d+$/, ''));
    return [...new Set(names)].filter((name) => name !== this.#platform.instance);
  }

  /** Takes over the items of another instance. They are stored here before they are removed there. */
  takeOver(instance: string): void {
    const start = `${this.#prefix}${instance}.`;
    const number = (key: string) => Number(key.slice(start.length));
    const keys = this.#keys().filter((key) => key.startsWith(start) && number(key) >= 0);
    for (const key of keys.sort((a, b) => number(a) - number(b))) {
      const items = parsed<unknown[]>(this.#store?.get(key));
      // Otherwise it is damaged or not from this SDK.
      if (Array.isArray(items)) this.add(items as Item[]);
      this.#store?.remove(key);
      this.persist();
    }
  }

  #keys(): string[] {
    return this.#store ? this.#store.keys().filter((key) => key.startsWith(this.#prefix)) : [];
  }

  #replace(part: Part, items: QueuedItem[]): void {
    const kept = new Set(items);
    for (const item of part.items) {
      if (kept.has(item)) continue;
      item.gone = true;
      this.length--;
      this.#characters -= item.size;
    }
    part.items = items;
    this.#write(part);
  }

  /** After this task, calls write immediately again, and the parts that it did not write are written. */
  #setTimer(): void {
    if (this.#timerSet) return;
    this.#timerSet = true;
    this.#platform.setTimer(() => {
      this.#timerSet = false;
      this.#writes = 0;
      if (this.persist(SLICE_PARTS)) this.#setTimer();
    }, 0);
  }

  /** Returns whether it is stored. Otherwise it is sent from memory, and stored when there is free space. */
  #write(part: Part): boolean {
    if (this.#closed) return false;
    this.#unwritten.add(part);
    const text = part.items.length ? `[${part.items.map((item) => item.json).join(',')}]` : '';
    const stored = this.#stored - part.stored + text.length;
    if (text && stored > MAX_STORED) return false;
    try {
      if (text) this.#store?.set(part.key, text);
      else this.#store?.remove(part.key);
    } catch {
      return false;
    }
    this.#stored = stored;
    part.stored = text.length;
    this.#unwritten.delete(part);
    return true;
  }
}
