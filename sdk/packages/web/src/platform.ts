import { type Platform, type Settings, type Signals, type Store, uuids } from '@rekindle/core';

/** The browser as a platform of the SDK. Accesses it only after `init`, so that servers can import the SDK. */
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

/** Listens to an event. Returns a function that stops it. */
export function listen<K extends keyof WindowEventMap>(
  target: Window | Document,
  type: K,
  run: (event: WindowEventMap[K]) => void,
): () => void {
  target.addEventListener(type, run as EventListener);
  return () => target.removeEventListener(type, run as EventListener);
}

/** `localStorage`, or null if the browser forbids it. */
function localStore(): Store | null {
  try {
    const storage = window.localStorage;
    // Read only: a full storage can still be read, and written later.
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
 * A page holds a lock while it exists, and waits for the locks of pages that have stored items, to take over pages that are closed
 * at once. It releases its locks when it is hidden, because browsers keep no page with locks in the back/forward cache.
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
  const acquire = () => {
    const controller = new AbortController();
    const { signal } = controller;
    // `release` aborts the request, which is no failure.
    const request = (name: string, run: () => unknown) =>
      void locks.request(prefix + name, { signal }, run).catch(() => undefined);
    request(instance, () => new Promise<void>((done) => signal.addEventListener('abort', () => done())));
    for (const name of names()) request(name, () => take(name));
    release = () => controller.abort();
  };
  acquire();
  const stops = [
    listen(window, 'pagehide', () => release()),
    listen(window, 'pageshow', (event) => event.persisted && acquire()),
  ];
  return () => {
    stops.forEach((stop) => stop());
    release();
  };
}
