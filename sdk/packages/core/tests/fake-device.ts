import { Client, type Options, type Platform, type RequestOptions, settings } from '../src/index';

export interface Sent {
  url: string;
  init: RequestOptions;
  /** The batch's items. */
  items: Array<Record<string, unknown>>;
}

export type Reply = { status: number; body?: unknown; headers?: Record<string, string> } | 'lost' | 'no response';

/** A scripted server that records each item once, as the real one does. */
export class FakeServer {
  readonly sent: Sent[] = [];
  readonly recorded = new Map<string, Record<string, unknown>>();
  /** Next replies; afterwards `answer` replies. */
  script: Reply[] = [];
  /** Reply once the script has ended. */
  answer: (sent: Sent) => Reply = () => ({ status: 202 });

  async fetch(url: string, init: RequestOptions) {
    const body = init.body ? (JSON.parse(init.body) as { batch?: Sent['items'] }) : {};
    const sent = { url, init, items: body.batch ?? [] };
    this.sent.push(sent);
    const reply = this.script.shift() ?? this.answer(sent);
    if (reply === 'lost') throw new TypeError('network');
    const accepted = reply === 'no response' || (reply.status < 300 && reply.body === undefined);
    if (accepted) for (const item of sent.items) this.recorded.set(String(item.id), item);
    if (reply === 'no response') throw new TypeError('network');
    const text = reply.body ?? { success: true, processed: sent.items.length, errors: 0 };
    return {
      status: reply.status,
      headers: { get: (name: string) => reply.headers?.[name] ?? null },
      text: async () => (typeof text === 'string' ? text : JSON.stringify(text)),
    };
  }

  get batches(): Sent[] {
    return this.sent.filter((sent) => sent.url.endsWith('/events/batch'));
  }
}

/** A device: its storage outlives the clients that are started on it. */
export class FakeDevice {
  readonly stored = new Map<string, string>();
  readonly server = new FakeServer();
  time = Date.UTC(2026, 0, 1);
  full = false;
  private isHidden = false;
  logged: string[] = [];
  private timers = new Map<number, { due: number; run: () => void }>();
  private nextTimer = 1;
  private starts = 0;
  private readers = new Set<readonly [key: string, run: () => void]>();
  private signals = { hide: () => {}, show: () => {}, online: () => {} };
  /** Maximum bytes in the storage. */
  quota = Infinity;
  /** Instances that run; the queues of others may be taken over. */
  private alive = new Set<string>();

  start(options: Partial<Options> = {}, memoryOnly = false): Client {
    const instance = `i${this.starts++}`;
    this.alive.add(instance);
    const platform: Platform = {
      instance,
      store: memoryOnly
        ? null
        : {
            get: (key) => this.stored.get(key) ?? null,
            set: (key, value) => {
              const others = [...this.stored]
                .filter(([other]) => other !== key)
                .reduce((sum, [, text]) => sum + text.length, 0);
              if (this.full || others + value.length > this.quota) throw new Error('QuotaExceededError');
              if (this.alive.has(instance)) this.stored.set(key, value);
            },
            remove: (key) => void (this.alive.has(instance) && this.stored.delete(key)),
            keys: () => [...this.stored.keys()],
          },
      fetch: (url, init) => this.server.fetch(url, init),
      now: () => this.time,
      random: (bytes) => bytes.forEach((_, i) => (bytes[i] = Math.random() * 256)),
      setTimer: (run, milliseconds) => {
        this.timers.set(this.nextTimer, { due: this.time + milliseconds, run });
        return this.nextTimer++;
      },
      clearTimer: (timer) => void this.timers.delete(timer as number),
      hidden: () => this.isHidden,
      watch: (signals) => {
        this.signals = signals;
        return () => {};
      },
      onWritten: (key, run) => {
        const reader = [key, run] as const;
        this.readers.add(reader);
        return () => void this.readers.delete(reader);
      },
      takeOver: (names, take) => {
        names()
          .filter((name) => !this.alive.has(name))
          .forEach(take);
        return () => void this.alive.delete(instance);
      },
      log: (level, ...words) => void this.logged.push(`${level} ${words.join(' ')}`),
    };
    const given = { projectId: 'p', apiKey: 'pk_live_x', autoTrackLifecycle: false, ...options };
    return new Client(settings(given as Options), platform);
  }

  /** Ends the page or app without any event. */
  kill(): void {
    this.timers.clear();
    this.alive.clear();
    this.readers.clear();
    this.signals = { hide: () => {}, show: () => {}, online: () => {} };
  }

  /** Writes a key as another page does. */
  write(key: string, value: string): void {
    this.stored.set(key, value);
    for (const [read, run] of this.readers) if (read === key) run();
  }

  /** Shifts the clock; timers keep their remaining time. */
  setClock(by: number): void {
    this.time += by;
    for (const timer of this.timers.values()) timer.due += by;
  }

  hide(): void {
    this.isHidden = true;
    this.signals.hide();
  }

  show(): void {
    this.isHidden = false;
    this.signals.show();
  }

  online(): void {
    this.signals.online();
  }

  /** Advances the time and runs the timers that become due. */
  async pass(milliseconds: number): Promise<void> {
    const end = this.time + milliseconds;
    for (;;) {
      await settle();
      const next = [...this.timers].filter(([, timer]) => timer.due <= end).sort((a, b) => a[1].due - b[1].due)[0];
      if (!next) break;
      this.timers.delete(next[0]);
      this.time = Math.max(this.time, next[1].due);
      next[1].run();
    }
    this.time = end;
    await settle();
  }
}

/** Waits until all started work is waiting for timers or the network. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 50; i++) await Promise.resolve();
}
