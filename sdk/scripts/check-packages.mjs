// What a published package promises: its files are there, its types fit how it is loaded, and loading it touches nothing.
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';

const packages = ['web', 'react-native'];
const run = (command, args) => execFileSync('npx', ['--no-install', command, ...args], { stdio: 'inherit' });

for (const name of [...packages, 'browser']) run('publint', ['--strict', `packages/${name}`]);
for (const name of packages) run('attw', ['--pack', `packages/${name}`, '--profile', 'node16', '--exclude-entrypoints', './sw']);

const require = createRequire(import.meta.url);
const before = Object.keys(globalThis).length;
for (const entry of ['@rekindle/web', '@rekindle/web/events', '@rekindle/web/react']) {
  const [imported, required] = [await import(entry), require(entry)];
  if (Object.keys(imported).join() !== Object.keys(required).join()) throw new Error(`${entry}: import and require differ`);
}
if (Object.keys(globalThis).length !== before) throw new Error('importing made globals');
console.log('packages: loaded by import and by require, no globals made');
