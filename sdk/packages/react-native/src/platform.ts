import { type Platform, type Settings, type Store, uuids } from '@rekindle/core';
import { AppState } from 'react-native';

const away = (): boolean => AppState.currentState === 'background';

/** A phone, as the SDK sees it. */
export function phone(settings: Settings, store: Store | null): Platform {
  return {
    store,
    random,
    instance: uuids(Date.now, random)(),
    now: Date.now,
    fetch: (url, init) => fetch(url, init),
    setTimer: (run, milliseconds) => setTimeout(run, milliseconds),
    clearTimer: (timer) => clearTimeout(timer as ReturnType<typeof setTimeout>),
    hidden: away,
    watch(signals) {
      let before = away();
      const listener = AppState.addEventListener('change', (state) => {
        // `inactive` is a call coming in or the app switcher: the app is still there.
        if (state === 'background' && !before) signals.hide();
        if (state === 'active' && before) {
          signals.show();
          // There is no sign of the network without a native module: coming back is as good a time as any.
          signals.online();
        }
        if (state !== 'inactive') before = state === 'background';
      });
      return () => listener.remove();
    },
    // One app has one process: whatever another start left is nobody's.
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

/** As good as the engine has it: some have no `crypto`, and their `Math.random` alone has been seen to repeat. */
export function random(bytes: Uint8Array): void {
  const { crypto } = globalThis as { crypto?: { getRandomValues?(bytes: Uint8Array): unknown } };
  if (crypto?.getRandomValues) return void crypto.getRandomValues(bytes);
  const clock = (globalThis.performance?.now?.() ?? 0) * 1_000 + ++calls;
  for (let i = 0; i < bytes.length; i++) bytes[i] = (Math.random() * 256) ^ (clock / 2 ** (i % 6));
}
