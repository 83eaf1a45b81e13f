import { type Platform, type Settings, type Store, uuids } from '@rekindle/core';
import { AppState } from 'react-native';

const isInBackground = (): boolean => AppState.currentState === 'background';

/** The phone as a platform of the SDK. */
export function phone(settings: Settings, store: Store | null): Platform {
  return {
    store,
    random,
    instance: uuids(Date.now, random)(),
    now: Date.now,
    fetch: (url, init) => fetch(url, init),
    setTimer: (run, milliseconds) => setTimeout(run, milliseconds),
    clearTimer: (timer) => clearTimeout(timer as ReturnType<typeof setTimeout>),
    hidden: isInBackground,
    watch(signals) {
      let before = isInBackground();
      const listener = AppState.addEventListener('change', (state) => {
        // `inactive` is an incoming call or the app switcher; the app stays in the foreground.
        if (state === 'background' && !before) signals.hide();
        if (state === 'active' && before) {
          signals.show();
          // The network state needs a native module, so a retry is made when the app is shown.
          signals.online();
        }
        if (state !== 'inactive') before = state === 'background';
      });
      return () => listener.remove();
    },
    // An app has one process, so other instances no longer run.
    takeOver(names, take) {
      names().forEach(take);
      return () => undefined;
    },
    log: (level, ...words) => {
      if (settings.debug || level === 'error') console[level]('[rekindle]', ...words);
    },
  };
}

let calls = 0;

/** Uses `crypto` if the engine has it. Otherwise mixes in the clock, as `Math.random` alone repeats in some engines. */
export function random(bytes: Uint8Array): void {
  const { crypto } = globalThis as { crypto?: { getRandomValues?(bytes: Uint8Array): unknown } };
  if (crypto?.getRandomValues) return void crypto.getRandomValues(bytes);
  const clock = (globalThis.performance?.now?.() ?? 0) * 1_000 + ++calls;
  for (let i = 0; i < bytes.length; i++) bytes[i] = (Math.random() * 256) ^ (clock / 2 ** (i % 6));
}
