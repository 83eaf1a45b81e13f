/** Budget of one item: characters of keys and strings plus the number of values. An item of 32 KiB needs less. */
const BUDGET = 100_000;

/** Budget and depth of small plain data. */
const SMALL_BUDGET = 2_000;
const SMALL_DEPTH = 4;

/** Returned by `toJson` for values that are too large to send. */
export const TOO_LARGE = null;

/** Remaining budget of the current item. */
let budget = 0;

/** Returns whether `JSON.stringify` can serialize the value directly: small, plain data. */
function isPlain(part: unknown, depth: number): boolean {
  budget -= typeof part === 'string' ? part.length : 1;
  // A function may have, or be, a `toJSON`.
  if (typeof part !== 'object' || part === null)
    return budget > 0 && typeof part !== 'bigint' && typeof part !== 'function';
  if (!depth || !(Array.isArray(part) ? part.length < budget : Object.getPrototypeOf(part) === Object.prototype))
    return false;
  for (const key in part) {
    budget -= key.length;
    if (!isPlain((part as Record<string, unknown>)[key], depth - 1)) return false;
  }
  return true;
}

/**
 * Serializes any value without throwing; parts that cannot be serialized are omitted or replaced by a name. Returns `TOO_LARGE` when
 * the budget is exhausted, so that densely linked graphs are not walked along every path, and `undefined` if reading a value throws.
 */
export function toJson(value: unknown): string | typeof TOO_LARGE | undefined {
  const ancestors: unknown[] = [];
  try {
    budget = SMALL_BUDGET;
    // The common case, and much faster.
    if (isPlain(value, SMALL_DEPTH)) return JSON.stringify(value);
    budget = BUDGET;
    return JSON.stringify(value, function (this: unknown, key, part: unknown) {
      budget -= 1 + key.length + (typeof part === 'string' ? part.length : 0);
      if (budget < 0) throw TOO_LARGE;
      if (typeof part === 'bigint') return String(part);
      if (typeof part !== 'object' || part === null) return part;
      // A DOM element references the whole page, and in React everything that renders it.
      const { nodeType, nodeName } = part as { nodeType?: unknown; nodeName?: unknown };
      if (typeof nodeType === 'number' && typeof nodeName === 'string') return `[${nodeName}]`;
      // `this` contains `part`. Drops ancestors that have been left.
      if (ancestors.at(-1) !== this) ancestors.splice(ancestors.indexOf(this) + 1);
      if (ancestors.includes(part)) return '[Circular]';
      ancestors.push(part);
      return part;
    });
  } catch (error) {
    return error === TOO_LARGE ? TOO_LARGE : undefined;
  }
}

/** Parses a JSON object or array; returns `undefined` for anything else. */
export function parsed<T extends object = Record<string, unknown>>(
  text: string | null | undefined,
): Partial<T> | undefined {
  try {
    const value: unknown = JSON.parse(text ?? '');
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the number of bytes of a string in UTF-8. */
export function bytes(text: string): number {
  // Three bytes for these characters, two for the other non-ASCII ones; the halves of a surrogate pair add up to four.
  return text.replace(/[\u0800-\ud7ff\ue000-\uffff]/g, '...').replace(/[^\0-\x7f]/g, '..').length;
}
