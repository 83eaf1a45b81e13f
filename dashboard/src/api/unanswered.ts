import { randomUuid } from './uuid';

interface Sent {
  body: string;
  key: string;
}

/**
 * Requests that nobody has answered yet. Whether they took effect is not known: so the same one, sent again, goes under
 * the same `Idempotency-Key`, and makes nothing twice. Of each address the newest is remembered.
 */
export class Unanswered {
  readonly #sent = new Map<string, Sent>();

  keyOf(address: string, body: string): string {
    const before = this.#sent.get(address);
    if (before?.body === body) return before.key;
    const key = randomUuid();
    this.#sent.set(address, { body, key });
    return key;
  }

  answered(address: string, key: string): void {
    if (this.#sent.get(address)?.key === key) this.#sent.delete(address);
  }
}
