import { useSyncExternalStore } from 'react';

/** Public keys that were made since the page was loaded. Nobody is told one later, and none is stored. */
const keys = new Map<string, string>();
const listeners = new Set<() => void>();

function tell(): void {
  for (const listener of listeners) listener();
}

export function rememberKey(projectId: string, key: string): void {
  keys.set(projectId, key);
  tell();
}

/** A key that begins so is revoked. */
export function forgetKey(projectId: string, prefix: string): void {
  if (!knownKey(projectId)?.startsWith(prefix)) return;
  keys.delete(projectId);
  tell();
}

/** A public key of a project, if one is known. */
export function knownKey(projectId: string): string | undefined {
  return keys.get(projectId);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The same, on a screen that follows it. */
export function useKnownKey(projectId: string): string | undefined {
  return useSyncExternalStore(subscribe, () => knownKey(projectId));
}
