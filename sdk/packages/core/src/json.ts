/** Of one item, the characters of keys and texts and the number of values together. An item of 32 KiB has less. */
const BUDGET = 100_000;

/**
 * JSON of anything: what cannot be written is left out or named, and nothing throws. `undefined` for what is too large to be
 * sent anyway: a DOM node leads to the whole page, along every path of a graph that is linked crosswise.
 */
export function toJson(value: unknown): string | undefined {
  const above: unknown[] = [];
  let left = BUDGET;
  try {
    return JSON.stringify(value, function (this: unknown, key, part: unknown) {
      left -= 1 + key.length + (typeof part === 'string' ? part.length : 0);
      if (left < 0) throw 0;
      if (typeof part === 'bigint') return String(part);
      if (typeof part !== 'object' || part === null) return part;
      // `this` holds `part`: what is not above it any more is done with.
      above.splice(above.indexOf(this) + 1);
      if (above.includes(part)) return '[Circular]';
      above.push(part);
      return part;
    });
  } catch {
    return undefined;
  }
}

/** The object that a text is the JSON of, if it is that. */
export function parsed<T extends object = Record<string, unknown>>(text: string | null | undefined): Partial<T> | undefined {
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
