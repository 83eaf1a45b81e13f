/** The little that is used of React Native: its own types would fight with the browser's. */
declare module 'react-native' {
  export const AppState: {
    readonly currentState: string;
    addEventListener(type: 'change', run: (state: string) => void): { remove(): void };
  };
  export const Platform: { readonly OS: string };
}
