function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** The fields that are no longer as they were. */
export function changesOf<T extends object>(base: T, value: T): Partial<T> {
  return Object.fromEntries(
    Object.entries(value).filter(([name, now]) => !same(now, base[name as keyof T])),
  ) as Partial<T>;
}

/** What stands in the fields once `sent` is `stored`: where somebody has typed on meanwhile, what they typed. */
export function settled<T extends object>(now: T, sent: T, stored: T): T {
  return { ...stored, ...changesOf(sent, now) };
}
