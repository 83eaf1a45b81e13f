import { type Platform, type Settings, type Signals, type Store, uuids } from '@rekindle/core';

/** The browser, as the SDK sees it. Touched at `init` and not before, so that a server can import all of this. */
export function browser(settings: Settings): Platform {
  const instance = uuids(Date.now, random)();
  return {
    store: localStore(),
    instance,
    random,
    now: Date.now,
    fetch: (url, init) => fetch(url, { ...init, credentials: 'omit' }),
    setTimer: (run, milliseconds) => setTimeout(run, milliseconds),
    clearTimer: (timer) => clearTimeout(timer as number),
    watch,
    hidden,
    onWritten: (key, run) => listen(window, 'storage', (event) => event.key === key && run()),
    takeOver: (names, take) => takeOver(`rekindle.${settings.projectId}.`, instance, names, take),
    log: (level, ...words) => {
      if (settings.debug || level === 'error') console[level]('[rekindle]', ...words);
    },
  };
}

export function random(bytes: Uint8Array): void {
  crypto.getRandomValues(bytes as Uint8Array<ArrayBuffer>);
}

/** Listens; returns how to stop. */
export function listen<K extends keyof WindowEventMap>(
  target: Window | Document,
  type: K,
  run: (event: WindowEventMap[K]) => void,
): () => void {
  target.addEventListener(type, run as EventListener);
  return () => target.removeEventListener(type, run as EventListener);
}

/** `localStorage`, or nothing where the browser forbids it. */
function localStore(): Store | null {
  try {
    const storage = window.localStorage;
    // Not written: a full one is still read, and has room later.
    storage.getItem('');
    return {
      get: (key) => storage.getItem(key),
      set: (key, value) => storage.setItem(key, value),
      remove: (key) => storage.removeItem(key),
      keys: () => Object.keys(storage),
    };
  } catch {
    return null;
  }
}

const hidden = (): boolean => document.visibilityState === 'hidden';

function watch(signals: Signals): () => void {
  let before = hidden();
  const change = (now: boolean) => {
    if (before === now) return;
    before = now;
    if (now) signals.hide();
    else signals.show();
  };
  const stops = [
    listen(document, 'visibilitychange' as 'pagehide', () => change(hidden())),
    listen(window, 'pagehide', () => change(true)),
    listen(window, 'pageshow', () => change(hidden())),
    listen(window, 'online', signals.online),
  ];
  return () => stops.forEach((stop) => stop());
}

/**
 * A page holds a lock for as long as it lives, and waits for those of the pages that left something: whoever is gone is taken over
 * at once. The locks are let go when the page is put away, for a page that holds one cannot be kept for the back button.
 */
function takeOver(
  prefix: string,
  instance: string,
  names: () => string[],
  take: (instance: string) => void,
): () => void {
  const { locks } = navigator;
  if (!locks) {
    names().forEach(take);
    return () => undefined;
  }
  let release: () => void = () => undefined;
  const begin = () => {
    const controller = new AbortController();
    const { signal } = controller;
    // Taken away by `release`, which is no failure.
    const ask = (name: string, run: () => unknown) =>
      void locks.request(prefix + name, { signal }, run).catch(() => undefined);
    ask(instance, () => new Promise<void>((done) => signal.addEventListener('abort', () => done())));
    for (const name of names()) ask(name, () => take(name));
    release = () => controller.abort();
  };
  begin();
  const stops = [
    listen(window, 'pagehide', () => release()),
    listen(window, 'pageshow', (event) => event.persisted && begin()),
  ];
  return () => {
    stops.forEach((stop) => stop());
    release();
  };
}
