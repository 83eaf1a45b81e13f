// Runs after `vite build`: compresses files that shrink by at least 10 %, so that the gateway need not compress them.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const built = new URL('../dist/assets/', import.meta.url).pathname;
for (const name of readdirSync(built)) {
  if (!/\.(js|css|svg)$/.test(name)) continue;
  const plain = readFileSync(join(built, name));
  const zipped = gzipSync(plain, { level: 9 });
  if (zipped.length < plain.length * 0.9) writeFileSync(join(built, `${name}.gz`), zipped);
}
