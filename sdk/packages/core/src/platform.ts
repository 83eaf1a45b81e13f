/** What the SDK needs of the place where it runs. */
export interface Platform {
  /** Where the queue and the identity outlive the page; `null` where nothing does. */
  readonly store: Store | null;
  /** One for each page or app start: names its part of the queue. */
  readonly instance: string;
  fetch(url: string, init: RequestOptions): Promise<Answer>;
  /** Milliseconds since 1970. */
  now(): number;
  /** Fills the array with random bytes, as good as the place has them. */
  random(bytes: Uint8Array): void;
  setTimer(run: () => void, milliseconds: number): unknown;
  clearTimer(timer: unknown): void;
  /** Tells when the page is about to be hidden or closed, shown again, or the network is back. Returns how to stop. */
  watch(signals: Signals): () => void;
  /** Whether nobody sees it now. */
  hidden(): boolean;
  /** Tells when another page has written the key. Returns how to stop. */
  onWritten?(key: string, run: () => void): () => void;
  /**
   * Runs `take` with the names of instances that are gone, so that their queues can be taken over. What is taken twice is
   * sent twice under the same ids, and recorded once. Returns how to stop, which leaves this instance's own to others.
   */
  takeOver?(names: () => string[], take: (instance: string) => void): () => void;
  log(level: 'debug' | 'warn' | 'error', ...words: unknown[]): void;
}

/** Text by key, at once. A place whose storage takes time keeps a copy and writes behind; `written` then says when it has. */
export interface Store {
  get(key: string): string | null;
  /** May throw where the storage is full. */
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

/** The part of a `Response` that is looked at. */
export interface Answer {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
}
