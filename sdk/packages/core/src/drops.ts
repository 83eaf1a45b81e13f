/**
 * Reasons for dropped items:
 * - `invalid_name`: the name or user ID is not a string of 1–200 characters.
 * - `invalid_properties`: the properties are not an object, or reading them throws.
 * - `too_large`: the properties exceed 32 KiB, or a proxy rejected the size.
 * - `queue_full`: the queue exceeded its limits; the oldest items were dropped.
 * - `rejected`: the server rejected the item.
 * - `not_initialized`: called more than 1,000 times before `init`, or after `dispose`.
 */
export type DropReason =
  'invalid_name' | 'invalid_properties' | 'too_large' | 'queue_full' | 'rejected' | 'not_initialized';

/** Items that were dropped and will not be recorded. */
export interface Drop {
  reason: DropReason;
  /** Number of items. */
  count: number;
  message: string;
  /** The item, or the invalid value; missing for several items. */
  item?: unknown;
}

/** Counts dropped items by reason, and reports them. */
export class Drops {
  readonly #counts: Partial<Record<DropReason, number>> = {};
  #reporting = false;

  constructor(
    private readonly debug: boolean,
    private readonly listener?: (drop: Drop) => void,
  ) {}

  /** Warns once per reason (each time with `debug`), and calls the listener each time. */
  add(reason: DropReason, message: string, item?: unknown, count = 1): void {
    const before = this.count(reason);
    this.#counts[reason] = before + count;
    if (!before || this.debug) warn(`not recorded (${reason}): ${message}`, item ?? '');
    // Prevents endless recursion if the listener itself tracks an invalid item.
    if (this.#reporting) return;
    this.#reporting = true;
    try {
      this.listener?.({ reason, count, message, item });
    } catch (error) {
      console.error('[rekindle]', 'onDrop failed', error);
    }
    this.#reporting = false;
  }

  /** Returns the number of dropped items, for one reason or in total. */
  count(reason?: DropReason): number {
    return reason ? (this.#counts[reason] ?? 0) : Object.values(this.#counts).reduce((sum, count) => sum + count, 0);
  }
}

export function warn(...words: unknown[]): void {
  console.warn('[rekindle]', ...words);
}
