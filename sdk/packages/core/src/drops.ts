/**
 * Why something was not recorded:
 * - `invalid_name`: the name or user ID is not a text of 1–200 characters.
 * - `invalid_properties`: the properties are not an object, or reading them throws.
 * - `too_large`: the properties have more than 32 KiB, or a proxy refuses the size.
 * - `queue_full`: more waited than is kept; the oldest were dropped.
 * - `rejected`: the server refused the item.
 * - `not_initialized`: called more than 1,000 times before `init`, or after `dispose`.
 */
export type DropReason =
  'invalid_name' | 'invalid_properties' | 'too_large' | 'queue_full' | 'rejected' | 'not_initialized';

/** Something that was not recorded and will not be. */
export interface Drop {
  reason: DropReason;
  /** How many items. */
  count: number;
  message: string;
  /** The item as it was to be sent, or the value that was refused; missing where there are several. */
  item?: unknown;
}

/** Counts what is dropped, by reason, and reports it. */
export class Drops {
  readonly #counts: Partial<Record<DropReason, number>> = {};
  #reporting = false;

  constructor(
    private readonly debug: boolean,
    private readonly listener?: (drop: Drop) => void,
  ) {}

  /** Warns once for each reason, with `debug` each time, and calls the listener each time. */
  add(reason: DropReason, message: string, item?: unknown, count = 1): void {
    const before = this.count(reason);
    this.#counts[reason] = before + count;
    if (!before || this.debug) warn(`not recorded (${reason}): ${message}`, item ?? '');
    // A listener that tracks something which is dropped would never come to an end.
    if (this.#reporting) return;
    this.#reporting = true;
    try {
      this.listener?.({ reason, count, message, item });
    } catch (error) {
      console.error('[rekindle]', 'onDrop failed', error);
    }
    this.#reporting = false;
  }

  /** How many were dropped, for one reason or for all. */
  count(reason?: DropReason): number {
    return reason ? (this.#counts[reason] ?? 0) : Object.values(this.#counts).reduce((sum, count) => sum + count, 0);
  }
}

export function warn(...words: unknown[]): void {
  console.warn('[rekindle]', ...words);
}
