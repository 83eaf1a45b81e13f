function isEqual(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** Returns the fields whose values differ from `base`. */
export function changesOf<T extends object>(base: T, value: T): Partial<T> {
  return Object.fromEntries(
    Object.entries(value).filter(([name, now]) => !isEqual(now, base[name as keyof T])),
  ) as Partial<T>;
}

/** Returns the field values after `sent` was saved as `stored`: edits made while saving are kept. */
export function mergeSaved<T extends object>(now: T, sent: T, stored: T): T {
  return { ...stored, ...changesOf(sent, now) };
}
