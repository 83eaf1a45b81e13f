/** What somebody typed where JSON belongs, and cannot be read as such. It stands in the value's place, and is never sent. */
export class Unreadable {
  constructor(
    readonly text: string,
    readonly why: string,
  ) {}
}

/** A text as JSON; where there is none, what stands for nothing. */
export function readJson(text: string, nothing: unknown): unknown {
  if (text.trim() === '') return nothing;
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    return new Unreadable(text, cause instanceof Error ? cause.message : '');
  }
}

export function shownJson(value: unknown): string {
  if (value instanceof Unreadable) return value.text;
  return value === undefined ? '' : JSON.stringify(value, null, 2);
}

/** Whether all of a value can be sent. */
export function isReadable(value: unknown): boolean {
  if (value instanceof Unreadable) return false;
  return typeof value !== 'object' || value === null || Object.values(value).every(isReadable);
}
