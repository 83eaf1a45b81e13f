import { fileURLToPath } from 'node:url';
import { type ViteUserConfig, defineConfig } from 'vitest/config';

const source = (path: string) => fileURLToPath(new URL(`packages/${path}`, import.meta.url));

const config: ViteUserConfig = defineConfig({
  resolve: {
    // React Navigation 6 declares its modules in `module`.
    mainFields: ['module', 'main'],
    alias: {
      '@rekindle/core': source('core/src/index.ts'),
      '@rekindle/web': source('web/src/index.ts'),
      // React Native for browsers: React Native's own sources are not JavaScript.
      'react-native': 'react-native-web',
    },
  },
  test: {
    include: ['packages/*/tests/**/*.test.{ts,tsx}'],
    restoreMocks: true,
    server: { deps: { inline: [/react-native-web/, /react-navigation/] } },
  },
});
export default config;
