import { type UserConfig, defineConfig } from 'tsdown';

const shared: UserConfig = {
  target: 'es2022',
  platform: 'browser',
  deps: { alwaysBundle: ['@rekindle/core'] },
  fixedExtension: false,
};

const config: UserConfig[] = defineConfig([
  { ...shared, entry: { index: 'src/index.ts', events: 'src/events.ts' }, format: ['esm', 'cjs'], dts: true },
  {
    ...shared,
    entry: { react: 'src/react.tsx' },
    format: ['esm', 'cjs'],
    dts: true,
    clean: false,
    deps: { alwaysBundle: ['@rekindle/core'], neverBundle: ['react', '@rekindle/web'] },
  },
  {
    ...shared,
    entry: { 'rekindle-sw': 'src/worker/index.ts' },
    format: ['iife'],
    dts: false,
    clean: false,
    minify: true,
    outputOptions: { entryFileNames: 'rekindle-sw.js' },
  },
]);
export default config;
