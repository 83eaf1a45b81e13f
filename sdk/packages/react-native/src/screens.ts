/** A screen, as React Navigation describes it. */
export interface Route {
  name: string;
  params?: object;
  path?: string;
  key?: string;
}

/** The part of React Navigation's reference that is looked at: version 6, version 7 and expo-router have it. */
export interface NavigationRef {
  getCurrentRoute(): Route | undefined;
  addListener(type: 'state', run: () => void): () => void;
  isReady?(): boolean;
}

export interface NavigatorObserverOptions {
  /** What a screen is called; its route's name where this is missing. Nothing is recorded for null. */
  extractScreenName?: (route: Route) => string | null | undefined;
}

export interface NavigatorObserver {
  /** Watches the navigation; give it the reference of your `NavigationContainer`. Returns how to stop. */
  observe(ref: NavigationRef): () => void;
  /** For `<NavigationContainer onReady={…}>` and `onStateChange`, where you would rather call than be watched. */
  look(ref: NavigationRef): void;
}

/** Sees which screen is shown; `screen` is called once for each that is new. No hooks, so it works outside of the container, too. */
export function navigatorObserver(
  screen: (name: string) => void,
  { extractScreenName }: NavigatorObserverOptions = {},
): NavigatorObserver {
  let last: string | undefined;
  const named = (route: Route) => {
    try {
      return extractScreenName ? extractScreenName(route) : route.name;
    } catch (error) {
      console.warn('[rekindle] extractScreenName failed:', error);
      return route.name;
    }
  };
  const look = (ref: NavigationRef) => {
    const route = ref.isReady?.() === false ? undefined : ref.getCurrentRoute();
    if (!route) return;
    const name = named(route);
    const shown = route.key ?? route.path ?? route.name;
    if (!name || shown === last) return;
    last = shown;
    screen(name);
  };
  return {
    look,
    observe(ref) {
      look(ref);
      return ref.addListener('state', () => look(ref));
    },
  };
}
