import type { Item } from './items';
import { parsed } from './json';
import type { Platform, Store } from './platform';

/** Items in one stored part: a call writes no more than these. */
const PART = 25;
/** Items in memory at most; beyond it the oldest are dropped. */
export const MAX_ITEMS = 20_000;
/** Characters of JSON in memory at most, about. */
export const MAX_CHARACTERS: number = 8 * 1024 * 1024;
/** Characters of JSON in the storage at most: the page needs some of its quota, too. */
export const MAX_STORED: number = 2 * 1024 * 1024;
/** Calls within one task that write at once; what more there is is written in slices, so that the page stays responsive. */
const BURST = 100;
/** Parts written in one slice. */
const SLICE = 20;

/** An item that waits. */
export class Waiting {
  /** Sent or dropped. */
  gone?: boolean;

  #text: string | undefined;

  constructor(
    private readonly write: () => string,
    /** Characters of its JSON, about. */
    readonly size: number,
    /** Whose it is, where they were identified. */
    readonly user: string | undefined,
  ) {}

  /** What will be sent; written when it is needed, and once. */
  get json(): string {
    return (this.#text ??= this.write());
  }
}

interface Part {
  readonly key: string;
  items: Waiting[];
  /** Characters in the storage. */
  stored: number;
}

/** What waits to be sent, oldest first: stored before it is sent, and removed after the server has it. */
export class Queue {
  length = 0;
  readonly #store: Store | null;
  readonly #prefix: string;
  readonly #platform: Pick<Platform, 'store' | 'instance' | 'setTimer'>;
  readonly #onFull: (dropped: number) => void;
  #parts: Part[] = [];
  #made = 0;
  #closed = false;
  #characters = 0;
  #stored = 0;
  /** Calls of this task that have written. */
  #burst = 0;
  #armed = false;
  /** Parts that wait for their slice, or for free space. */
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
    if (!part || part.items.length >= PART) {
      part = { key: `${this.#prefix}${this.#platform.instance}.${this.#made++}`, items: [], stored: 0 };
      this.#parts.push(part);
    }
    part.items.push(new Waiting(write, size, user));
    this.length++;
    this.#characters += size;
    if (this.#burst++ < BURST) this.#write(part);
    else this.#unwritten.add(part);
    this.#arm();
    let dropped = 0;
    while (this.length > MAX_ITEMS || this.#characters > MAX_CHARACTERS) {
      const oldest = this.#parts.shift()!;
      dropped += oldest.items.length;
      this.#keep(oldest, []);
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
  *[Symbol.iterator](): Generator<Waiting> {
    for (const part of this.#parts) yield* part.items;
  }

  remove(done: ReadonlySet<Waiting>): void {
    let left = done.size;
    for (const part of this.#parts) {
      if (!left) break;
      const rest = part.items.filter((item) => !done.has(item));
      const removed = part.items.length - rest.length;
      left -= removed;
      if (removed) this.#keep(part, rest);
    }
    this.#parts = this.#parts.filter((part) => part.items.length);
    this.persist(SLICE);
  }

  clear(): void {
    this.remove(new Set(this));
  }

  /** Writes up to `most` parts that are not stored yet, oldest first. Whether more could be written. */
  persist(most: number = Infinity): boolean {
    for (const part of this.#unwritten) {
      if (most-- <= 0) return true;
      if (!this.#write(part)) break;
    }
    return false;
  }

  /** What is stored stays as it is from here on: it is for others to take over. */
  close(): void {
    this.persist();
    this.#closed = true;
  }

  /** The instances that have left something behind. */
  others(): string[] {
    const names = this.#keys().map((key) => key.slice(this.#prefix.length).replace(/\.\d+$/, ''));
    return [...new Set(names)].filter((name) => name !== this.#platform.instance);
  }

  /** Takes over what another instance left: it is stored here before it is removed there. */
  takeOver(instance: string): void {
    const start = `${this.#prefix}${instance}.`;
    const number = (key: string) => Number(key.slice(start.length));
    const keys = this.#keys().filter((key) => key.startsWith(start) && number(key) >= 0);
    for (const key of keys.sort((a, b) => number(a) - number(b))) {
      const items = parsed<unknown[]>(this.#store?.get(key));
      // Else it is not ours, or damaged: nothing to be saved.
      if (Array.isArray(items)) this.add(items as Item[]);
      this.#store?.remove(key);
      this.persist();
    }
  }

  #keys(): string[] {
    return this.#store ? this.#store.keys().filter((key) => key.startsWith(this.#prefix)) : [];
  }

  #keep(part: Part, items: Waiting[]): void {
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

  /** After this task the next calls write at once again, and what this one has left over is written. */
  #arm(): void {
    if (this.#armed) return;
    this.#armed = true;
    this.#platform.setTimer(() => {
      this.#armed = false;
      this.#burst = 0;
      if (this.persist(SLICE)) this.#arm();
    }, 0);
  }

  /** Whether it is stored; else it is in memory, goes out from there, and is written when there is free space. */
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
