import { useSyncExternalStore } from 'react';

/** Public keys that were made since the page was loaded. Nobody is told one later, and none is stored. */
const keys = new Map<string, string>();
const listeners = new Set<() => void>();

export function rememberKey(projectId: string, key: string): void {
  keys.set(projectId, key);
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** A public key of a project, if one is known. */
export function useKnownKey(projectId: string): string | undefined {
  return useSyncExternalStore(subscribe, () => keys.get(projectId));
}
