const names = new WeakMap<object, string>();
let assigned = 0;

/**
 * Returns the React key of an entry in an edited list. It stays the same when the entry is moved or its neighbours are removed.
 * It is not part of the data, so nothing has to be removed before a request.
 */
export function identityOf(entry: object): string {
  const existing = names.get(entry);
  if (existing !== undefined) return existing;
  const name = `entry-${assigned++}`;
  names.set(entry, name);
  return name;
}

/** Replaces the entry at `index`; the new entry keeps the identity of the old one. */
export function withEntry<T extends object>(list: readonly T[], index: number, entry: T): T[] {
  const before = list[index];
  if (before !== undefined) names.set(entry, identityOf(before));
  return list.map((each, at) => (at === index ? entry : each));
}

/** Copies identities, position by position, from a value that was sent to the stored form that was read back. */
export function keepIdentities(before: unknown, after: unknown): void {
  if (!isObject(before) || !isObject(after)) return;
  const name = names.get(before);
  if (name !== undefined) names.set(after, name);
  for (const [key, entry] of Object.entries(after)) keepIdentities(before[key], entry);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
