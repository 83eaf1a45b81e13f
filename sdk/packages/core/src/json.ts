/** JSON of anything: what cannot be written is left out or named, and nothing throws. */
export function toJson(value: unknown): string | undefined {
  const above: unknown[] = [];
  try {
    return JSON.stringify(value, function (this: unknown, _key, part: unknown) {
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
