import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** Origin of the API for `npm run dev`. */
const api = process.env.REKINDLE_ORIGIN ?? 'http://127.0.0.1:8080';

export default defineConfig({
  plugins: [react()],
  build: {
    // Git tracks a file in `dist`.
    emptyOutDir: false,
    // Styles and scripts must be files: the Content-Security-Policy allows no inline ones.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
  },
  server: { proxy: { '/api': { target: api, changeOrigin: false } } },
});
