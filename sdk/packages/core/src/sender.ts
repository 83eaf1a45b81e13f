import { backoff } from './backoff';
import { type Drops, warn } from './drops';
import { BATCH_BYTES, BATCH_ITEMS } from './items';
import { bytes, parsed } from './json';
import type { Settings } from './options';
import type { Platform } from './platform';
import type { Proofs } from './proofs';
import type { Queue, QueuedItem } from './queue';
import { type Verdict, judge } from './transport';

/** Timeout of a request, in milliseconds. */
const TIMEOUT = 30_000;
/** Consecutive requests without a response after which a warning is logged. */
const FAILURES_BEFORE_WARNING = 5;

/** Sends queued items in order, one batch at a time. */
export class Sender {
  readonly #queue: Queue;
  readonly #settings: Settings;
  readonly #platform: Platform;
  #timer: unknown;
  /** Time at which the timer fires. */
  #due = Infinity;
  #sending: Promise<void> | undefined;
  #failures = 0;
  /** Time before which the server wants no request. */
  #notBefore = 0;
  /** Maximum items per batch; reduced to find an item that the server rejects. */
  #maxBatch = BATCH_ITEMS;
  #stopped = false;
  #ended = false;
  readonly #drops: Drops;
  readonly #proofs: Proofs;
  /** Warnings that were already logged. */
  readonly #warned = new Set<string>();

  constructor(queue: Queue, settings: Settings, platform: Platform, drops: Drops, proofs: Proofs) {
    this.#queue = queue;
    this.#settings = settings;
    this.#platform = platform;
    this.#drops = drops;
    this.#proofs = proofs;
  }

  /** Schedules sending: at once if enough items are queued, otherwise after the flush interval. */
  schedule(): void {
    const { flushAt, flushIntervalSeconds } = this.#settings;
    if (!this.#failures) this.#setTimer(this.#queue.length >= flushAt ? 0 : flushIntervalSeconds * 1_000);
  }

  /** Sends all queued items. Resolves when they are sent or sending failed; never rejects. */
  flush(): Promise<void> {
    return (this.#sending ??= this.#run().finally(() => {
      this.#sending = undefined;
    }));
  }

  /** Called when the network is back: retries failed items at once. */
  online(): void {
    if (this.#failures) void this.flush();
  }

  /** Called when the page may be about to end: sends the oldest items in a request that outlives it. */
  hide(): void {
    this.#queue.persist();
    const batch = this.#batch();
    if (!this.#canSend() || !batch.length) return;
    void this.#post(batch, true).then((verdict) => {
      if (verdict.kind === 'accepted') this.#accept(batch, verdict);
    });
  }

  end(): void {
    this.#ended = true;
    this.#clearTimer();
  }

  #canSend(): boolean {
    return !this.#stopped && !this.#ended && this.#platform.now() >= this.#notBefore;
  }

  #setTimer(after: number): void {
    const due = Math.max(this.#platform.now() + after, this.#notBefore);
    if (this.#stopped || this.#ended || this.#due <= due) return;
    this.#clearTimer();
    this.#due = due;
    this.#timer = this.#platform.setTimer(() => {
      this.#due = Infinity;
      // The wait is over even if the clock was set back meanwhile.
      this.#notBefore = 0;
      void this.flush();
    }, due - this.#platform.now());
  }

  #clearTimer(): void {
    if (this.#due < Infinity) this.#platform.clearTimer(this.#timer);
    this.#due = Infinity;
  }

  async #run(): Promise<void> {
    await this.#platform.store?.written?.();
    while (this.#queue.length && this.#canSend()) {
      // Items are stored before they are sent.
      this.#queue.persist(BATCH_ITEMS / 5);
      const batch = this.#batch();
      if (!batch.length) {
        // All queued items are of the current user, whose token must be renewed first.
        this.#renew();
        return;
      }
      const verdict = await this.#post(batch, false);
      if (verdict.kind === 'later') {
        const delay = backoff(++this.#failures, Math.random);
        const wait = verdict.after ?? delay;
        if (verdict.after !== undefined) this.#notBefore = this.#platform.now() + verdict.after;
        this.#platform.log('debug', 'not sent; retry in ms', wait);
        this.#warnAbout(verdict.status);
        this.#clearTimer();
        this.#setTimer(wait);
        return;
      }
      if (verdict.kind === 'stop') {
        this.#stopped = true;
        this.#platform.log('error', 'the server rejected the apiKey:', verdict.body?.message);
        return;
      }
      if (verdict.kind === 'halve' && batch.length > 1) {
        this.#maxBatch = Math.ceil(batch.length / 2);
        continue;
      }
      this.#failures = 0;
      if (verdict.kind === 'halve') {
        this.#drop(batch[0], verdict.body?.message ?? `the server returned ${verdict.status}`, verdict.status === 413);
        this.#queue.remove(new Set(batch));
      } else {
        this.#maxBatch = Math.min(this.#maxBatch * 2, BATCH_ITEMS);
        this.#accept(batch, verdict);
      }
    }
    if (this.#queue.length) this.#setTimer(0);
    else this.#clearTimer();
  }

  /** Requests a new token, and sends again once there is one. Until then, and if the app has none, only other users' items are sent. */
  #renew(): void {
    this.#clearTimer();
    this.#setTimer(backoff(++this.#failures, Math.random));
    void this.#proofs.renew().then((renewed) => void (renewed && this.flush()));
  }

  /** Removes an accepted batch from the queue, except for items whose user must be proven again. Reports rejected items. */
  #accept(batch: QueuedItem[], { body, token }: Verdict): void {
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

  #drop(item: QueuedItem | undefined, message: unknown, tooLarge?: boolean): void {
    // A closing page may send an item twice; then it is rejected twice.
    if (item && !item.gone) this.#drops.add(tooLarge ? 'too_large' : 'rejected', String(message), parsed(item.json));
  }

  /** Warns once of failures that retries do not solve. */
  #warnAbout(status: number | undefined): void {
    const { apiUrl } = this.#settings;
    let why: string | undefined;
    if (status === 404 || status === 405) why = `apiUrl is wrong: ${apiUrl}/events/batch returns ${status}`;
    else if (status === undefined)
      why = this.#failures >= FAILURES_BEFORE_WARNING ? `${apiUrl} does not respond: check apiUrl and network` : why;
    else if (status < 500 && status !== 408 && status !== 429)
      why = `${apiUrl} returns ${status}, not like Rekindle: check apiUrl`;
    if (why) this.#warn(why);
  }

  #warn(why: string): void {
    if (this.#warned.has(why)) return;
    this.#warned.add(why);
    warn(`${why}. Events are kept and sent later.`);
  }

  /** Returns the oldest items that fit into one request, with at most one identified user, as a request has one proof. */
  #batch(): QueuedItem[] {
    const batch: QueuedItem[] = [];
    let size = 64;
    let user: string | undefined;
    for (const item of this.#queue) {
      if (item.user !== undefined) {
        if (this.#proofs.isRefused(item.user)) continue;
        if (item.user !== (user ??= item.user)) break;
      }
      size += bytes(item.json) + 1;
      if (batch.length && (batch.length >= this.#maxBatch || size > BATCH_BYTES)) break;
      batch.push(item);
    }
    return batch;
  }

  /** Never rejects: requests that fail or time out are retried later. */
  #post(batch: QueuedItem[], keepalive: boolean): Promise<Verdict> {
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
