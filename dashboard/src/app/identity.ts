const names = new WeakMap<object, string>();
let given = 0;

/**
 * What an entry of an edited list is known by on the screen. It stays while the entry is moved or its neighbours go, and is
 * no part of the data, so nothing has to be taken out before that is sent.
 */
export function identityOf(entry: object): string {
  const known = names.get(entry);
  if (known !== undefined) return known;
  const name = `entry-${given++}`;
  names.set(entry, name);
  return name;
}

/** A list with another entry at a place, which is known by what the one before it was. */
export function withEntry<T extends object>(list: readonly T[], index: number, entry: T): T[] {
  const before = list[index];
  if (before !== undefined) names.set(entry, identityOf(before));
  return list.map((each, at) => (at === index ? entry : each));
}

/** Gives what is read anew, entry by entry where it stood, the identities of what it is the stored form of. */
export function keepIdentities(before: unknown, after: unknown): void {
  if (!isObject(before) || !isObject(after)) return;
  const known = names.get(before);
  if (known !== undefined) names.set(after, known);
  for (const [place, entry] of Object.entries(after)) keepIdentities(before[place], entry);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
