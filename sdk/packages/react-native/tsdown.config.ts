import { type UserConfig, defineConfig } from 'tsdown';

const config: UserConfig = defineConfig({
  entry: { index: 'src/index.ts' },
  format: ['esm', 'cjs'],
  target: 'es2022',
  platform: 'neutral',
  fixedExtension: false,
  deps: { alwaysBundle: ['@rekindle/core'], neverBundle: ['react-native'] },
  dts: true,
});
export default config;
