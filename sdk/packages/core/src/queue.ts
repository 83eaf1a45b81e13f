import { parsed } from './json';
import type { Store } from './platform';

/** Items in one stored part: a call writes no more than these. */
const PART = 25;
/** Items that wait at most; beyond it the oldest go. */
export const CAP = 1_000;

/** An item that waits, as the JSON text that will be sent. */
export interface Waiting {
  readonly json: string;
}

interface Part {
  readonly key: string;
  items: Waiting[];
}

/** What waits to be sent, oldest first: stored before it is sent, and removed after the server has it. */
export class Queue {
  readonly #store: Store | null;
  readonly #prefix: string;
  readonly #instance: string;
  /** Items that went because too many waited. */
  dropped = 0;
  length = 0;
  #parts: Part[] = [];
  #made = 0;
  #closed = false;
  /** Parts that did not fit into the storage: written when there is room again. */
  readonly #unwritten = new Set<Part>();

  /** Keys are `<prefix><instance>.<number>`. */
  constructor(store: Store | null, prefix: string, instance: string) {
    this.#store = store;
    this.#prefix = prefix;
    this.#instance = instance;
  }

  push(json: string): void {
    let part = this.#parts.at(-1);
    if (!part || part.items.length >= PART) {
      part = { key: `${this.#prefix}${this.#instance}.${this.#made++}`, items: [] };
      this.#parts.push(part);
    }
    part.items.push({ json });
    this.length++;
    this.#write(part);
    for (const oldest of this) {
      if (this.length <= CAP) break;
      this.dropped++;
      this.remove(new Set([oldest]));
    }
  }

  /** The oldest items, in order. */
  *[Symbol.iterator](): Generator<Waiting> {
    for (const part of this.#parts) yield* part.items;
  }

  remove(done: ReadonlySet<Waiting>): void {
    for (const part of this.#parts) {
      const left = part.items.filter((item) => !done.has(item));
      if (left.length === part.items.length) continue;
      this.length -= part.items.length - left.length;
      part.items = left;
      this.#write(part);
    }
    this.#parts = this.#parts.filter((part) => part.items.length);
    this.#unwritten.forEach((part) => this.#write(part));
  }

  clear(): void {
    this.remove(new Set(this));
  }

  /** What is stored stays as it is from here on: it is for others to take over. */
  close(): void {
    this.#closed = true;
  }

  /** The instances that have left something behind. */
  others(): string[] {
    const names = this.#keys().map((key) => key.slice(this.#prefix.length).replace(/\.\d+$/, ''));
    return [...new Set(names)].filter((name) => name !== this.#instance);
  }

  /** Takes over what another instance left: it is stored here before it is removed there. */
  takeOver(instance: string): void {
    const start = `${this.#prefix}${instance}.`;
    const number = (key: string) => Number(key.slice(start.length));
    const keys = this.#keys().filter((key) => key.startsWith(start) && number(key) >= 0);
    for (const key of keys.sort((a, b) => number(a) - number(b))) {
      const items = parsed<unknown[]>(this.#store?.get(key));
      // Else it is not ours, or damaged: nothing to be saved.
      if (Array.isArray(items)) for (const item of items) this.push(JSON.stringify(item));
      this.#store?.remove(key);
      this.#unwritten.forEach((part) => this.#write(part));
    }
  }

  #keys(): string[] {
    return this.#store ? this.#store.keys().filter((key) => key.startsWith(this.#prefix)) : [];
  }

  #write(part: Part): void {
    if (this.#closed) return;
    try {
      if (part.items.length) this.#store?.set(part.key, `[${part.items.map((item) => item.json).join(',')}]`);
      else this.#store?.remove(part.key);
      this.#unwritten.delete(part);
    } catch {
      // Full: it is in memory, and goes out from there.
      this.#unwritten.add(part);
    }
  }
}
