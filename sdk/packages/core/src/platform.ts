/** The environment that the SDK runs in. */
export interface Platform {
  /** Storage that outlives the page, for the queue and the identity; `null` if there is none. */
  readonly store: Store | null;
  /** Name of this page or app start, and of its part of the queue. */
  readonly instance: string;
  fetch(url: string, init: RequestOptions): Promise<Answer>;
  /** Milliseconds since 1970. */
  now(): number;
  /** Fills the array with random bytes, of the best source available. */
  random(bytes: Uint8Array): void;
  setTimer(run: () => void, milliseconds: number): unknown;
  clearTimer(timer: unknown): void;
  /** Signals when the page is about to be hidden or closed, is shown again, or the network is back. Returns a function that stops it. */
  watch(signals: Signals): () => void;
  /** Whether the page or app is hidden. */
  hidden(): boolean;
  /** Runs `run` when another page has written the key. Returns a function that stops it. */
  onWritten?(key: string, run: () => void): () => void;
  /**
   * Runs `take` with the names of instances that no longer run, so that their queues can be taken over. Items taken over twice are
   * sent twice with the same IDs and recorded once. Returns a function that stops it; afterwards others can take over this instance.
   */
  takeOver?(names: () => string[], take: (instance: string) => void): () => void;
  log(level: 'debug' | 'warn' | 'error', ...words: unknown[]): void;
}

/**
 * Synchronous key-value storage. Platforms with asynchronous storage keep a copy and write in the background; `written` then resolves
 * when they have.
 */
export interface Store {
  get(key: string): string | null;
  /** May throw if the storage is full. */
  set(key: string, value: string): void;
  remove(key: string): void;
  keys(): string[];
  written?(): Promise<unknown>;
}

export interface Signals {
  hide(): void;
  show(): void;
  online(): void;
}

export interface RequestOptions {
  method: string;
  headers: Record<string, string>;
  body?: string;
  keepalive?: boolean;
}

/** The part of a `Response` that is used. */
export interface Answer {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
}
