// @vitest-environment happy-dom
import { type ReactNode, act, useEffect } from 'react';
import { type Root, createRoot } from 'react-dom/client';
// expo-router has its own copy of React Navigation.
import * as expo from 'expo-router/build/react-navigation/core';
import * as six from 'react-navigation-6';
import * as seven from 'react-navigation-7';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type NavigatorObserver, Rekindle } from '../src/index';

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

/** The part of React Navigation that is used here; both versions have it. */
type Navigation = typeof seven;
const versions: Array<[string, Navigation]> = [
  ['React Navigation 6', six as unknown as Navigation],
  ['React Navigation 7', seven],
  ['expo-router', { ...expo, NavigationContainer: expo.BaseNavigationContainer } as unknown as Navigation],
];

let screens: string[];
let rekindle: Rekindle;
let root: Root;

beforeEach(async () => {
  screens = [];
  vi.stubGlobal('fetch', async (_: string, init: { body: string }) => {
    const { batch } = JSON.parse(init.body) as { batch: Array<{ type: string; name: string }> };
    screens.push(...batch.filter(({ type }) => type === 'screen').map(({ name }) => name));
    return new Response(JSON.stringify({ processed: batch.length, errors: 0 }));
  });
  rekindle = new Rekindle();
  rekindle.init({ projectId: 'p', apiKey: 'pk_live_x' });
  await rekindle.ready();
  root = createRoot(document.createElement('div'));
});

afterEach(async () => {
  await act(async () => root.unmount());
  rekindle.dispose();
  vi.unstubAllGlobals();
});

type Screens = { Home: undefined; Product: { id: number } };

/** An app with a stack of two screens that are observed. */
function app(
  {
    NavigationContainer,
    StackRouter,
    createNavigationContainerRef,
    createNavigatorFactory,
    useNavigationBuilder,
  }: Navigation,
  observer: NavigatorObserver,
  observed: boolean,
) {
  const ref = createNavigationContainerRef<Screens>();
  function Shown(props: { children: ReactNode }) {
    const { state, descriptors, NavigationContent } = useNavigationBuilder(StackRouter, props as never);
    return <NavigationContent>{descriptors[state.routes[state.index]!.key]!.render()}</NavigationContent>;
  }
  const Stack = createNavigatorFactory(Shown as never)() as unknown as {
    Navigator: (props: { children: ReactNode }) => ReactNode;
    Screen: (props: { name: keyof Screens; component: () => ReactNode }) => ReactNode;
  };
  const look = observed ? undefined : () => observer.look(ref);
  function App() {
    useEffect(() => (observed ? observer.observe(ref) : undefined), []);
    return (
      <NavigationContainer ref={ref} onReady={look} onStateChange={look}>
        <Stack.Navigator>
          <Stack.Screen name="Home" component={Empty} />
          <Stack.Screen name="Product" component={Empty} />
        </Stack.Navigator>
      </NavigationContainer>
    );
  }
  return { App, ref };
}

function Empty(): ReactNode {
  return null;
}

for (const [version, navigation] of versions) {
  for (const observed of [true, false]) {
    test(`${version}, ${observed ? 'observed outside of the container' : 'with callbacks of the container'}: each screen is recorded once`, async () => {
      const observer = rekindle.createNavigatorObserver({
        extractScreenName: ({ name, params }) => (params ? `${name} ${(params as { id: number }).id}` : name),
      });
      const { App, ref } = app(navigation, observer, observed);
      await act(async () => root.render(<App />));
      await act(async () => ref.navigate('Product', { id: 1 }));
      await act(async () => ref.setParams({ id: 1 }));
      await act(async () => ref.dispatch(navigation.StackActions.push('Product', { id: 2 })));
      await act(async () => ref.goBack());
      await rekindle.flush();
      expect(screens).toEqual(['Home', 'Product 1', 'Product 2', 'Product 1']);
    });
  }
}

test('if extractScreenName throws, the name of the route is used', async () => {
  const warn = vi.spyOn(console, 'warn').mockReturnValue();
  const observer = rekindle.createNavigatorObserver({
    extractScreenName: () => {
      throw new Error('the host’s');
    },
  });
  const { App } = app(seven, observer, false);
  await act(async () => root.render(<App />));
  await rekindle.flush();
  expect(screens).toEqual(['Home']);
  expect(warn).toHaveBeenCalled();
});
