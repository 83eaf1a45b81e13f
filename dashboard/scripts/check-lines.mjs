// Fails if a source file has more than 400 lines.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const MAX_LINES = 400;
const root = new URL('..', import.meta.url).pathname;
const long = ['src', 'tests', 'e2e', 'scripts', 'public']
  .flatMap((folder) => readdirSync(join(root, folder), { recursive: true }).map((name) => join(folder, String(name))))
  .filter((name) => /\.(ts|tsx|mjs|js|css|html)$/.test(name) && !name.endsWith('.gen.d.ts'))
  .map((name) => [name, readFileSync(join(root, name), 'utf8').split('\n').length])
  .filter(([, lines]) => lines > MAX_LINES);
for (const [name, lines] of long) console.error(`${name}: ${lines} lines; split it`);
if (long.length > 0) process.exit(1);
