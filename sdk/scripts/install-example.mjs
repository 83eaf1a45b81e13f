// The React example, installed and built as its README says, from a fresh copy: outside of this workspace, with what npm would pack.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const place = mkdtempSync(join(tmpdir(), 'rekindle-example-'));
try {
  for (const path of ['examples/vite-react', 'sdk/packages/web']) {
    cpSync(`../${path}`, join(place, path), { recursive: true, filter: (file) => !file.includes('node_modules') });
  }
  const example = join(place, 'examples/vite-react');
  const npm = (...args) =>
    execFileSync('npm', [...args, '--loglevel=error'], { cwd: example, stdio: ['ignore', 'ignore', 'inherit'] });
  npm('install', '--ignore-scripts', '--no-audit', '--no-fund');
  npm('run', 'build');
  // A second React, behind a link, would take the hooks apart.
  if (existsSync(join(example, 'node_modules/@rekindle/web/node_modules')))
    throw new Error('@rekindle/web has brought packages along');
  const built = readdirSync(join(example, 'dist'));
  for (const file of ['index.html', 'rekindle-sw.js'])
    if (!built.includes(file)) throw new Error(`the built shop has no ${file}`);
} finally {
  rmSync(place, { recursive: true, force: true });
}
console.log('examples: one installed from a fresh copy, and built');
