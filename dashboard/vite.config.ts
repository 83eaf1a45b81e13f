import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** Where `npm run dev` finds the API. */
const api = process.env.REKINDLE_ORIGIN ?? 'http://127.0.0.1:8080';

export default defineConfig({
  plugins: [react()],
  build: {
    // `dist` holds a file of git's, which stays.
    emptyOutDir: false,
    // Styles and scripts come as files: the policy of the page allows no others.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
  },
  server: { proxy: { '/api': { target: api, changeOrigin: false } } },
});
