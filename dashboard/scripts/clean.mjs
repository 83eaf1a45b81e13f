// Before `vite build`: `dist` itself stays, for git holds a file in it. An image is built without it.
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const built = new URL('../dist/', import.meta.url).pathname;
mkdirSync(built, { recursive: true });
for (const name of readdirSync(built)) {
  if (!name.startsWith('.')) rmSync(join(built, name), { recursive: true });
}
