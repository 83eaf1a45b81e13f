import { fileURLToPath } from 'node:url';
import { type ViteUserConfig, defineConfig } from 'vitest/config';

const source = (path: string) => fileURLToPath(new URL(`packages/${path}`, import.meta.url));

const config: ViteUserConfig = defineConfig({
  resolve: { alias: { '@rekindle/core': source('core/src/index.ts'), '@rekindle/web': source('web/src/index.ts') } },
  test: { include: ['packages/*/tests/**/*.test.{ts,tsx}'], restoreMocks: true },
});
export default config;
