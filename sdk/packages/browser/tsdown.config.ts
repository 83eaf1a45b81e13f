import { type UserConfig, defineConfig } from 'tsdown';

const iife = (name: string, entry: string, clean: boolean): UserConfig => ({
  entry: { [name]: entry },
  format: ['iife'],
  target: 'es2022',
  platform: 'browser',
  deps: { alwaysBundle: [/./] },
  minify: true,
  dts: false,
  clean,
  outputOptions: { entryFileNames: `${name}.js` },
});

const config: UserConfig[] = defineConfig([
  iife('web', 'src/index.ts', true),
  iife('stub', 'src/stub.ts', false),
  iife('rekindle-sw', '../web/src/worker/index.ts', false),
  {
    entry: { global: 'src/global.ts' },
    format: ['esm'],
    target: 'es2022',
    platform: 'browser',
    fixedExtension: false,
    deps: { alwaysBundle: [/./] },
    dts: { emitDtsOnly: true },
    clean: false,
  },
]);
export default config;
