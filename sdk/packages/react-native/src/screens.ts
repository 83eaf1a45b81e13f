/** A screen of React Navigation. */
export interface Route {
  name: string;
  params?: object;
  path?: string;
  key?: string;
}

/** The part of React Navigation's reference that is used; versions 6 and 7 and expo-router have it. */
export interface NavigationRef {
  getCurrentRoute(): Route | undefined;
  addListener(type: 'state', run: () => void): () => void;
  isReady?(): boolean;
}

export interface NavigatorObserverOptions {
  /** Returns the name of a screen; null records nothing. Default: the name of the route. */
  extractScreenName?: (route: Route) => string | null | undefined;
}

export interface NavigatorObserver {
  /** Observes the navigation of your `NavigationContainer`'s reference. Returns a function that stops it. */
  observe(ref: NavigationRef): () => void;
  /** Checks the current screen. For `<NavigationContainer onReady={…}>` and `onStateChange`, instead of `observe`. */
  look(ref: NavigationRef): void;
}

/** Calls `screen` once for each new screen. Uses no hooks, so it also works outside of the container. */
export function navigatorObserver(
  screen: (name: string) => void,
  { extractScreenName }: NavigatorObserverOptions = {},
): NavigatorObserver {
  let last: string | undefined;
  const nameOf = (route: Route) => {
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
    const name = nameOf(route);
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
