import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Plugin } from 'vite';

const ADDRESS = 'rekindle-sw.js';

/** Serves the SDK's service worker from this site, as browsers ask for it. */
export function serviceWorker(): Plugin {
  const file = createRequire(import.meta.url).resolve('@rekindle/web/sw');
  return {
    name: 'rekindle-service-worker',
    configureServer(server) {
      server.middlewares.use(`/${ADDRESS}`, (_request, response) => {
        response.setHeader('content-type', 'text/javascript');
        readFile(file).then(
          (text) => response.end(text),
          () => response.destroy(),
        );
      });
    },
    async generateBundle() {
      this.emitFile({ type: 'asset', fileName: ADDRESS, source: await readFile(file) });
    },
  };
}
