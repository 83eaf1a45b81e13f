import type { Store } from '@rekindle/core';

/** What `@react-native-async-storage/async-storage` offers, and others of its kind. */
export interface AsyncStorage {
  getAllKeys(): Promise<readonly string[]>;
  getItem(key: string): Promise<string | null>;
  setItem(key: string, value: string): Promise<unknown>;
  removeItem(key: string): Promise<unknown>;
}

/** A copy of what is stored under the prefix; changes are written behind, one after the other. */
export async function load(storage: AsyncStorage, prefix: string): Promise<Store> {
  const keys = (await storage.getAllKeys()).filter((key) => key.startsWith(prefix));
  const copy = new Map<string, string>();
  for (const key of keys) {
    // One that cannot be read must not cost the others.
    const value = await storage.getItem(key).catch(() => null);
    if (value !== null) copy.set(key, value);
  }
  let last: Promise<unknown> = Promise.resolve();
  // A write that failed leaves the copy, from which things go out all the same.
  const after = (write: () => Promise<unknown>) => {
    last = last.then(write).catch(() => undefined);
  };
  return {
    get: (key) => copy.get(key) ?? null,
    set: (key, value) => {
      copy.set(key, value);
      after(() => (copy.get(key) === value ? storage.setItem(key, value) : Promise.resolve()));
    },
    remove: (key) => {
      copy.delete(key);
      after(() => (copy.has(key) ? Promise.resolve() : storage.removeItem(key)));
    },
    keys: () => [...copy.keys()],
    written: () => last,
  };
}
