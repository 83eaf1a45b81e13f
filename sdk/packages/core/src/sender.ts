import { backoff } from './backoff';
import { type Drops, warn } from './drops';
import { BATCH_BYTES, BATCH_ITEMS } from './items';
import { bytes, parsed } from './json';
import type { Settings } from './options';
import type { Platform } from './platform';
import type { Proofs } from './proofs';
import type { Queue, Waiting } from './queue';
import { type Verdict, judge } from './transport';

/** Then a request has failed, whatever becomes of it. */
const TIMEOUT = 30_000;
/** Requests in a row without an answer that are no mere gap in the network. */
const NO_ANSWER = 5;

/** Sends what waits, in order and one batch at a time. */
export class Sender {
  readonly #queue: Queue;
  readonly #settings: Settings;
  readonly #platform: Platform;
  #timer: unknown;
  /** When the timer fires. */
  #due = Infinity;
  #sending: Promise<void> | undefined;
  #failures = 0;
  /** Not before this: the server said so. */
  #notBefore = 0;
  /** Items of a batch at most, while one of them is being looked for. */
  #most = BATCH_ITEMS;
  #stopped = false;
  #ended = false;
  readonly #drops: Drops;
  readonly #proofs: Proofs;
  /** What was said already. */
  readonly #warned = new Set<string>();

  constructor(queue: Queue, settings: Settings, platform: Platform, drops: Drops, proofs: Proofs) {
    this.#queue = queue;
    this.#settings = settings;
    this.#platform = platform;
    this.#drops = drops;
    this.#proofs = proofs;
  }

  /** Sees to it that what waits goes out: soon where it is enough, else in its time. */
  schedule(): void {
    const { flushAt, flushIntervalSeconds } = this.#settings;
    if (!this.#failures) this.#wake(this.#queue.length >= flushAt ? 0 : flushIntervalSeconds * 1_000);
  }

  /** Sends everything that waits. Resolves when it is sent, or could not be; never rejects. */
  flush(): Promise<void> {
    return (this.#sending ??= this.#run().finally(() => {
      this.#sending = undefined;
    }));
  }

  /** The network is back: what failed is tried at once. */
  online(): void {
    if (this.#failures) void this.flush();
  }

  /** The page may be gone after this: the oldest items go out in a request that outlives it. */
  hide(): void {
    this.#queue.persist();
    const batch = this.#batch();
    if (!this.#may() || !batch.length) return;
    void this.#post(batch, true).then((verdict) => {
      if (verdict.kind === 'taken') this.#taken(batch, verdict);
    });
  }

  end(): void {
    this.#ended = true;
    this.#sleep();
  }

  #may(): boolean {
    return !this.#stopped && !this.#ended && this.#platform.now() >= this.#notBefore;
  }

  #wake(after: number): void {
    const due = Math.max(this.#platform.now() + after, this.#notBefore);
    if (this.#stopped || this.#ended || this.#due <= due) return;
    this.#sleep();
    this.#due = due;
    this.#timer = this.#platform.setTimer(() => {
      this.#due = Infinity;
      // The wait is over even where the clock was set back meanwhile.
      this.#notBefore = 0;
      void this.flush();
    }, due - this.#platform.now());
  }

  #sleep(): void {
    if (this.#due < Infinity) this.#platform.clearTimer(this.#timer);
    this.#due = Infinity;
  }

  async #run(): Promise<void> {
    await this.#platform.store?.written?.();
    while (this.#queue.length && this.#may()) {
      // What is sent is stored before.
      this.#queue.persist(BATCH_ITEMS / 5);
      const batch = this.#batch();
      if (!batch.length) {
        // All that waits is of the current user, who must be proven first.
        this.#renew();
        return;
      }
      const verdict = await this.#post(batch, false);
      if (verdict.kind === 'later') {
        const own = backoff(++this.#failures, Math.random);
        const wait = verdict.after ?? own;
        if (verdict.after !== undefined) this.#notBefore = this.#platform.now() + verdict.after;
        this.#platform.log('debug', 'not sent; again in ms', wait);
        this.#explain(verdict.status);
        this.#sleep();
        this.#wake(wait);
        return;
      }
      if (verdict.kind === 'stop') {
        this.#stopped = true;
        this.#platform.log('error', 'the server refuses the apiKey:', verdict.body?.message);
        return;
      }
      if (verdict.kind === 'halve' && batch.length > 1) {
        this.#most = Math.ceil(batch.length / 2);
        continue;
      }
      this.#failures = 0;
      if (verdict.kind === 'halve') {
        this.#drop(batch[0], verdict.body?.message ?? `the server answered ${verdict.status}`, verdict.status === 413);
        this.#queue.remove(new Set(batch));
      } else {
        this.#most = Math.min(this.#most * 2, BATCH_ITEMS);
        this.#taken(batch, verdict);
      }
    }
    if (this.#queue.length) this.#wake(0);
    else this.#sleep();
  }

  /** Gets a fresh token, and goes on as soon as there is one. Meanwhile, and where the app has none, what others did is sent. */
  #renew(): void {
    this.#sleep();
    this.#wake(backoff(++this.#failures, Math.random));
    void this.#proofs.renew().then((renewed) => void (renewed && this.flush()));
  }

  /** The server has the batch, except for what it refused of it. */
  #taken(batch: Waiting[], { body, token }: Verdict): void {
    const details = body?.details;
    const done = new Set(batch);
    if (Array.isArray(details)) {
      for (const { index, message, code } of details as Array<{ index: number; message: unknown; code?: unknown }>) {
        const user = batch[index]?.user;
        if (code === 'identity_unproven' && user !== undefined && this.#proofs.refuse(user, token)) {
          done.delete(batch[index]!);
          this.#warn(String(message));
        } else this.#drop(batch[index], message);
      }
    }
    this.#queue.remove(done);
  }

  #drop(item: Waiting | undefined, message: unknown, tooLarge?: boolean): void {
    // Sent twice, as a closing page does, it is refused twice.
    if (item && !item.gone) this.#drops.add(tooLarge ? 'too_large' : 'rejected', String(message), parsed(item.json));
  }

  /** Warns once of what will not get better by itself. */
  #explain(status: number | undefined): void {
    const { apiUrl } = this.#settings;
    let why: string | undefined;
    if (status === 404 || status === 405) why = `apiUrl is wrong: ${apiUrl}/events/batch answers ${status}`;
    else if (status === undefined)
      why = this.#failures >= NO_ANSWER ? `${apiUrl} does not answer: check apiUrl and the network` : why;
    else if (status < 500 && status !== 408 && status !== 429)
      why = `${apiUrl} answers ${status}, but not as Rekindle does: check apiUrl`;
    if (why) this.#warn(why);
  }

  #warn(why: string): void {
    if (this.#warned.has(why)) return;
    this.#warned.add(why);
    warn(`${why}. Events are kept and sent later.`);
  }

  /** The oldest items that fit into one request, of one user at most: one proof is sent with them. */
  #batch(): Waiting[] {
    const batch: Waiting[] = [];
    let size = 64;
    let user: string | undefined;
    for (const item of this.#queue) {
      if (item.user !== undefined) {
        if (this.#proofs.isRefused(item.user)) continue;
        if (item.user !== (user ??= item.user)) break;
      }
      size += bytes(item.json) + 1;
      if (batch.length && (batch.length >= this.#most || size > BATCH_BYTES)) break;
      batch.push(item);
    }
    return batch;
  }

  /** Never rejects: what fails or takes too long is for later. */
  #post(batch: Waiting[], keepalive: boolean): Promise<Verdict> {
    const { apiUrl } = this.#settings;
    const headers = this.#proofs.headers(batch.find((item) => item.user !== undefined)?.user);
    const token = headers['x-user-token'];
    const platform = this.#platform;
    const items = batch.map((item) => item.json).join(',');
    const sentAt = new Date(platform.now()).toISOString();
    return new Promise<Verdict>((done) => {
      const fail = () => done({ kind: 'later' });
      const timer = platform.setTimer(fail, TIMEOUT);
      platform
        .fetch(`${apiUrl}/events/batch`, {
          method: 'POST',
          headers: { ...headers, 'content-type': 'application/json' },
          body: `{"sentAt":"${sentAt}","batch":[${items}]}`,
          keepalive,
        })
        .then((answer) => judge(answer, platform.now()))
        .then((verdict) => done({ ...verdict, token }), fail)
        .finally(() => platform.clearTimer(timer));
    });
  }
}
