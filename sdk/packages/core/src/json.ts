/** Of one item, the characters of keys and texts and the number of values together. An item of 32 KiB has less. */
const BUDGET = 100_000;

/** Of small plain data likewise. */
const SMALL = 2_000;
/** Levels of it. */
const DEPTH = 4;

/** What `toJson` returns for what is too large to be sent. */
export const TOO_LARGE = null;

/** What is left of the budget of the item at hand. */
let left = 0;

/** Whether `JSON.stringify` can write it as it is: small, and nothing but plain data. */
function isPlain(part: unknown, depth: number): boolean {
  left -= typeof part === 'string' ? part.length : 1;
  // A function may have a `toJSON`, and be one.
  if (typeof part !== 'object' || part === null)
    return left > 0 && typeof part !== 'bigint' && typeof part !== 'function';
  if (!depth || !(Array.isArray(part) ? part.length < left : Object.getPrototypeOf(part) === Object.prototype))
    return false;
  for (const key in part) {
    left -= key.length;
    if (!isPlain((part as Record<string, unknown>)[key], depth - 1)) return false;
  }
  return true;
}

/**
 * JSON of anything: what cannot be written is left out or named, and nothing throws. `TOO_LARGE` beyond the budget, however the
 * objects are linked: a graph that is linked crosswise would be walked along every path. `undefined` where reading it throws.
 */
export function toJson(value: unknown): string | typeof TOO_LARGE | undefined {
  const above: unknown[] = [];
  try {
    left = SMALL;
    // By far the most, and far faster.
    if (isPlain(value, DEPTH)) return JSON.stringify(value);
    left = BUDGET;
    return JSON.stringify(value, function (this: unknown, key, part: unknown) {
      left -= 1 + key.length + (typeof part === 'string' ? part.length : 0);
      if (left < 0) throw TOO_LARGE;
      if (typeof part === 'bigint') return String(part);
      if (typeof part !== 'object' || part === null) return part;
      // An element leads to the whole page, and in React to everything that renders it.
      const { nodeType, nodeName } = part as { nodeType?: unknown; nodeName?: unknown };
      if (typeof nodeType === 'number' && typeof nodeName === 'string') return `[${nodeName}]`;
      // `this` holds `part`: what is not above it any more is done with.
      if (above.at(-1) !== this) above.splice(above.indexOf(this) + 1);
      if (above.includes(part)) return '[Circular]';
      above.push(part);
      return part;
    });
  } catch (error) {
    return error === TOO_LARGE ? TOO_LARGE : undefined;
  }
}

/** The object that a text is the JSON of, if it is that. */
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

/** Bytes of a text in UTF-8. */
export function bytes(text: string): number {
  // Three for each of these, two for what is left: both halves of a pair together are four.
  return text.replace(/[\u0800-\ud7ff\ue000-\uffff]/g, '...').replace(/[^\0-\x7f]/g, '..').length;
}
