// Runs before `vite build`. Keeps `dist` itself, because git tracks a file in it. In image builds, `dist` does not exist yet.
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const built = new URL('../dist/', import.meta.url).pathname;
mkdirSync(built, { recursive: true });
for (const name of readdirSync(built)) {
  if (!name.startsWith('.')) rmSync(join(built, name), { recursive: true });
}
