import { type ViteUserConfig, defineConfig } from 'vitest/config';

const config: ViteUserConfig = defineConfig({
  test: { include: ['e2e/**/*.test.ts'], testTimeout: 60_000, fileParallelism: false },
});
export default config;
