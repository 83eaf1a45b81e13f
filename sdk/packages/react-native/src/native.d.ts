/** The parts of React Native in use; its own types conflict with the browser's. */
declare module 'react-native' {
  export const AppState: {
    readonly currentState: string;
    addEventListener(type: 'change', run: (state: string) => void): { remove(): void };
  };
  export const Platform: { readonly OS: string };
}
