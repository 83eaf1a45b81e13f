// Checks the packages to publish: their files exist, their types match the module format, and loading them has no side effects.
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
// The script is not CommonJS; its types declare its global.
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

// React Native cannot be loaded here; its replacement throws if it is used while loading.
const directory = mkdtempSync(join(tmpdir(), 'rekindle-package-'));
for (const [name, text] of [
  ['import.mjs', "import * as sdk from '@rekindle/react-native';"],
  ['require.cjs', "const sdk = require('@rekindle/react-native');"],
]) {
  const check = "if (typeof sdk.rekindle.init !== 'function') throw new Error('no rekindle');";
  writeFileSync(
    join(directory, name),
    `const before = Object.keys(globalThis).length;\n${text}\n${check}\nif (Object.keys(globalThis).length !== before) throw new Error('globals');`,
  );
}
cpSync('packages/react-native', join(directory, 'node_modules/@rekindle/react-native'), { recursive: true });
mkdirSync(join(directory, 'node_modules/react-native'));
writeFileSync(
  join(directory, 'node_modules/react-native/index.js'),
  "const fail = () => { throw new Error('used while loading'); };\nexports.AppState = { addEventListener: fail, get currentState() { return fail(); } };\nexports.Platform = { get OS() { return fail(); } };",
);
for (const name of ['import.mjs', 'require.cjs'])
  execFileSync(process.execPath, [join(directory, name)], { stdio: 'inherit' });
rmSync(directory, { recursive: true });

if (Object.keys(globalThis).length !== before) throw new Error('importing created globals');
for (const file of ['react.js', 'react.cjs']) {
  const text = readFileSync(`packages/web/dist/${file}`, 'utf8');
  if (!/^(['"]use strict['"];\s*)?['"]use client['"]/.test(text))
    throw new Error(`${file} does not begin with "use client"`);
}
console.log('packages: loaded with import and require, no globals created');
