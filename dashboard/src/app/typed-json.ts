/** Text typed into a JSON field that does not parse. It takes the place of the value and is never sent. */
export class Unreadable {
  constructor(
    readonly text: string,
    readonly reason: string,
  ) {}
}

/** Parses JSON. Returns `emptyValue` for an empty text, and {@link Unreadable} if it does not parse. */
export function readJson(text: string, emptyValue: unknown): unknown {
  if (text.trim() === '') return emptyValue;
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    return new Unreadable(text, cause instanceof Error ? cause.message : '');
  }
}

export function formatJson(value: unknown): string {
  if (value instanceof Unreadable) return value.text;
  return value === undefined ? '' : JSON.stringify(value, null, 2);
}

/** Whether a value contains nothing {@link Unreadable} and can be sent. */
export function isReadable(value: unknown): boolean {
  if (value instanceof Unreadable) return false;
  return typeof value !== 'object' || value === null || Object.values(value).every(isReadable);
}
