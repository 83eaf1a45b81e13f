/** JSON of anything: what cannot be written is left out or named, and nothing throws. */
export function toJson(value: unknown): string | undefined {
  const above: unknown[] = [];
  try {
    return JSON.stringify(value, function (this: unknown, _key, part: unknown) {
      if (typeof part === 'bigint') return String(part);
      if (typeof part !== 'object' || part === null) return part;
      // `this` holds `part`: what is not above it any more is done with.
      while (above.length && above[above.length - 1] !== this) above.pop();
      if (above.includes(part)) return '[Circular]';
      above.push(part);
      return part;
    });
  } catch {
    return undefined;
  }
}

/** The object that a text is the JSON of, if it is that. */
export function parsed<T extends object = Record<string, unknown>>(text: string): Partial<T> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Bytes of a text in UTF-8. */
export function bytes(text: string): number {
  let sum = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    // Half of a pair counts two: both halves together are four bytes.
    if (code > 0x7f) sum += code > 0x7ff && (code < 0xd800 || code > 0xdfff) ? 2 : 1;
  }
  return sum;
}
