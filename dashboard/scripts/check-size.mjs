// Checks the size of the scripts for the first screen: the page's script and everything that it imports statically.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const LIMIT = 220 * 1024;
const dist = new URL('../dist/', import.meta.url).pathname;
const page = readFileSync(join(dist, 'index.html'), 'utf8');
const first = [...page.matchAll(/(?:src|href)="\/(assets\/[^"]+\.js)"/g)].map((match) => match[1]);
const seen = new Set();
const queue = [...first];
while (queue.length > 0) {
  const name = queue.pop();
  if (seen.has(name)) continue;
  seen.add(name);
  const code = readFileSync(join(dist, name), 'utf8');
  // Static imports only: `import(…)` loads on demand.
  for (const match of code.matchAll(/(?:^|[;}\s])(?:import|export)\s*(?:[\w*{},$\s]+\s*from\s*)?"\.\/([^"]+\.js)"/g))
    queue.push(`assets/${match[1]}`);
}
const size = (name) => gzipSync(readFileSync(join(dist, name)), { level: 9 }).length;
const sizes = [...seen].map((name) => [name, size(name)]).toSorted((a, b) => b[1] - a[1]);
const total = sizes.reduce((sum, [, bytes]) => sum + bytes, 0);
for (const [name, bytes] of sizes) console.log(`${(bytes / 1024).toFixed(1).padStart(7)} KiB  ${name}`);
console.log(
  `${(total / 1024).toFixed(1).padStart(7)} KiB  of script before the first screen; at most ${LIMIT / 1024} KiB`,
);
const later = readdirSync(join(dist, 'assets')).filter((name) => name.endsWith('.js') && !seen.has(`assets/${name}`));
if (first.length === 0 || later.length === 0)
  throw new Error('the bundle does not have the form that this script expects');
if (total > LIMIT) process.exit(1);
