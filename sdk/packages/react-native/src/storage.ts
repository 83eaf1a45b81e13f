import type { Store } from '@rekindle/core';

/** Interface of `@react-native-async-storage/async-storage` and similar libraries. */
export interface AsyncStorage {
  getAllKeys(): Promise<readonly string[]>;
  getItem(key: string): Promise<string | null>;
  setItem(key: string, value: string): Promise<unknown>;
  removeItem(key: string): Promise<unknown>;
}

/** Loads a copy of the keys with this prefix. Changes are written in the background, one after the other. */
export async function load(storage: AsyncStorage, prefix: string): Promise<Store> {
  const keys = (await storage.getAllKeys()).filter((key) => key.startsWith(prefix));
  const copy = new Map<string, string>();
  for (const key of keys) {
    // A key that cannot be read must not prevent reading the others.
    const value = await storage.getItem(key).catch(() => null);
    if (value !== null) copy.set(key, value);
  }
  let last: Promise<unknown> = Promise.resolve();
  // If a write fails, the copy still has the value, and items are sent from it.
  const enqueue = (write: () => Promise<unknown>) => {
    last = last.then(write).catch(() => undefined);
  };
  return {
    get: (key) => copy.get(key) ?? null,
    set: (key, value) => {
      copy.set(key, value);
      enqueue(() => (copy.get(key) === value ? storage.setItem(key, value) : Promise.resolve()));
    },
    remove: (key) => {
      copy.delete(key);
      enqueue(() => (copy.has(key) ? Promise.resolve() : storage.removeItem(key)));
    },
    keys: () => [...copy.keys()],
    written: () => last,
  };
}
