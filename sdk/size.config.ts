import { type UserConfig, defineConfig } from 'tsdown';

/** Bundles each entry like an app's bundler: everything in one minified file. */
const entry = (name: string, from: string, external: string[] = []): UserConfig => ({
  entry: { [name]: from },
  outDir: 'size',
  format: ['esm'],
  target: 'es2022',
  platform: 'browser',
  minify: true,
  dts: false,
  clean: false,
  deps: { alwaysBundle: ['@rekindle/core'], neverBundle: external },
  outputOptions: { entryFileNames: `${name}.js` },
});

const config: UserConfig[] = defineConfig([
  entry('events', 'packages/web/src/events.ts'),
  entry('web', 'packages/web/src/index.ts'),
  entry('react', 'packages/web/src/react.tsx', ['react', '@rekindle/web']),
  entry('react-native', 'packages/react-native/src/index.ts', ['react-native']),
]);
export default config;
