// What a published package promises: its files are there, its types fit how it is loaded, and loading it touches nothing.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const packages = ['web', 'react-native'];
const run = (command, args) => execFileSync('npx', ['--no-install', command, ...args], { stdio: 'inherit' });

for (const name of [...packages, 'browser']) run('publint', ['--strict', `packages/${name}`]);
for (const name of packages)
  run('attw', ['--pack', `packages/${name}`, '--profile', 'node16', '--exclude-entrypoints', './sw']);
// A script is no CommonJS; its types are the global that it makes.
run('attw', ['--pack', 'packages/browser', '--profile', 'esm-only', '--exclude-entrypoints', './stub', './sw']);

const require = createRequire(import.meta.url);
const before = Object.keys(globalThis).length;
for (const entry of ['@rekindle/web', '@rekindle/web/events', '@rekindle/web/react']) {
  const [imported, required] = [await import(entry), require(entry)];
  if (Object.keys(imported).join() !== Object.keys(required).join())
    throw new Error(`${entry}: import and require differ`);
}
await import('@rekindle/browser');
await import('@rekindle/browser/stub');

// React Native itself cannot be loaded here; what stands for it shows that loading asks nothing of it.
const place = mkdtempSync(join(tmpdir(), 'rekindle-package-'));
for (const [name, text] of [
  ['import.mjs', "import * as sdk from '@rekindle/react-native';"],
  ['require.cjs', "const sdk = require('@rekindle/react-native');"],
]) {
  const check = "if (typeof sdk.rekindle.init !== 'function') throw new Error('no rekindle');";
  writeFileSync(
    join(place, name),
    `const before = Object.keys(globalThis).length;\n${text}\n${check}\nif (Object.keys(globalThis).length !== before) throw new Error('globals');`,
  );
}
cpSync('packages/react-native', join(place, 'node_modules/@rekindle/react-native'), { recursive: true });
mkdirSync(join(place, 'node_modules/react-native'));
writeFileSync(
  join(place, 'node_modules/react-native/index.js'),
  "const no = () => { throw new Error('touched while loading'); };\nexports.AppState = { addEventListener: no, get currentState() { return no(); } };\nexports.Platform = { get OS() { return no(); } };",
);
for (const name of ['import.mjs', 'require.cjs'])
  execFileSync(process.execPath, [join(place, name)], { stdio: 'inherit' });
rmSync(place, { recursive: true });

if (Object.keys(globalThis).length !== before) throw new Error('importing made globals');
for (const file of ['react.js', 'react.cjs']) {
  const text = readFileSync(`packages/web/dist/${file}`, 'utf8');
  if (!/^(['"]use strict['"];\s*)?['"]use client['"]/.test(text))
    throw new Error(`${file} does not begin with "use client"`);
}
console.log('packages: loaded by import and by require, no globals made');
