import { randomUuid } from './uuid';

interface Sent {
  body: string;
  key: string;
}

/**
 * Requests without a response, whose outcome is unknown. The same request, sent again, gets the same `Idempotency-Key` and so
 * takes effect only once. Only the newest request of each URL is kept.
 */
export class Unanswered {
  readonly #sent = new Map<string, Sent>();

  keyOf(target: string, body: string): string {
    const before = this.#sent.get(target);
    if (before?.body === body) return before.key;
    const key = randomUuid();
    this.#sent.set(target, { body, key });
    return key;
  }

  answered(target: string, key: string): void {
    if (this.#sent.get(target)?.key === key) this.#sent.delete(target);
  }
}
