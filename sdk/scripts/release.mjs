/**
 * Releases the script SDK under a version that pages can pin: `npm run release -- 1.2.0`. Sets the version of the packages, builds,
 * and adds the files to the gateway, which serves the last ten versions. A released version never changes.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const SERVED = 10;
const FILES = ['web.js', 'stub.js', 'rekindle-sw.js'];

const path = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const gateway = (name) => path(`../gateway/src/public/sdk/${name}`);
const json = (file) => JSON.parse(readFileSync(file, 'utf8'));
const parts = (version) => version.split('.').map(Number);
const isAfter = (a, b) => {
  const at = parts(a).findIndex((part, i) => part !== parts(b)[i]);
  return at >= 0 && parts(a)[at] > parts(b)[at];
};

const version = process.argv[2] ?? '';
const released = json(gateway('released.json'));
const last = Object.keys(released).at(-1);
if (!/^1\.\d+\.\d+$/.test(version))
  throw new Error(`usage: npm run release -- <version>, such as 1.2.0; the last one is ${last}`);
if (!isAfter(version, last)) throw new Error(`${version} does not follow ${last}`);

// The packages depend on each other by exact versions. Only our entries of the lock file change: npm would add binaries of every system.
const ours = /("name": "@rekindle\/[\w-]+",\s+"version": "|"@rekindle\/[\w-]+": ")\d+\.\d+\.\d+"/g;
for (const file of [
  ...readdirSync(path('packages')).map((name) => `packages/${name}/package.json`),
  'package-lock.json',
]) {
  writeFileSync(path(file), readFileSync(path(file), 'utf8').replace(ours, `$1${version}"`));
}
for (const script of ['build', 'embed'])
  execFileSync('npm', ['run', '--silent', script], { cwd: path('.'), stdio: ['ignore', 'ignore', 'inherit'] });

mkdirSync(gateway(version));
released[version] = {};
for (const file of FILES) {
  copyFileSync(gateway(file), gateway(`${version}/${file}`));
  released[version][file] = `sha384-${createHash('sha384')
    .update(readFileSync(gateway(file)))
    .digest('base64')}`;
}
writeFileSync(gateway('released.json'), `${JSON.stringify(released, null, 2)}\n`);
const versions = Object.keys(released).reverse();
for (const old of versions.slice(SERVED)) rmSync(gateway(old), { recursive: true, force: true });
const list = versions
  .slice(0, SERVED)
  .map((each) => `"${each}"`)
  .join(', ');
const code = readFileSync(gateway('releases.rs'), 'utf8');
writeFileSync(gateway('releases.rs'), code.replace(/releases! \{ "[^}]*\}/, `releases! { ${list} }`));
console.log(`released ${version}; the gateway serves ${versions.slice(0, SERVED).join(', ')}`);
