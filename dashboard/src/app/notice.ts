import { useSyncExternalStore } from 'react';

export interface Notice {
  id: number;
  text: string;
  bad: boolean;
}

let notices: Notice[] = [];
let last = 0;
const listeners = new Set<() => void>();

function set(next: Notice[]): void {
  notices = next;
  for (const listener of listeners) listener();
}

/** Shows a notification for 5 seconds; an error stays until it is closed. */
export function notify(text: string, bad = false): void {
  const id = ++last;
  set([...notices.slice(-2), { id, text, bad }]);
  if (!bad) setTimeout(() => dismiss(id), 5_000);
}

export function dismiss(id: number): void {
  set(notices.filter((notice) => notice.id !== id));
}

export function useNotices(): Notice[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => notices,
  );
}
