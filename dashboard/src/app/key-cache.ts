import { useSyncExternalStore } from 'react';

/** Public keys created since the page was loaded, by project. The API never returns them again, and none is stored. */
const keys = new Map<string, string>();
const listeners = new Set<() => void>();

function notifyListeners(): void {
  for (const listener of listeners) listener();
}

export function cacheKey(projectId: string, key: string): void {
  keys.set(projectId, key);
  notifyListeners();
}

/** Forgets the key that starts with `prefix`, because it was revoked. */
export function removeCachedKey(projectId: string, prefix: string): void {
  if (!cachedKey(projectId)?.startsWith(prefix)) return;
  keys.delete(projectId);
  notifyListeners();
}

/** Returns a public key of a project, if one was created since the page was loaded. */
export function cachedKey(projectId: string): string | undefined {
  return keys.get(projectId);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Like {@link cachedKey}, and rerenders when it changes. */
export function useCachedKey(projectId: string): string | undefined {
  return useSyncExternalStore(subscribe, () => cachedKey(projectId));
}
