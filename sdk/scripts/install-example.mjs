// Installs and builds the React example as its README says, in a copy outside of this workspace, with the files that npm would pack.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const directory = mkdtempSync(join(tmpdir(), 'rekindle-example-'));
try {
  for (const path of ['examples/vite-react', 'sdk/packages/web']) {
    cpSync(`../${path}`, join(directory, path), { recursive: true, filter: (file) => !file.includes('node_modules') });
  }
  const example = join(directory, 'examples/vite-react');
  const npm = (...args) =>
    execFileSync('npm', [...args, '--loglevel=error'], { cwd: example, stdio: ['ignore', 'ignore', 'inherit'] });
  npm('install', '--ignore-scripts', '--no-audit', '--no-fund');
  npm('run', 'build');
  // A second copy of React would break the hooks.
  if (existsSync(join(example, 'node_modules/@rekindle/web/node_modules')))
    throw new Error('@rekindle/web has installed its own packages');
  const built = readdirSync(join(example, 'dist'));
  for (const file of ['index.html', 'rekindle-sw.js'])
    if (!built.includes(file)) throw new Error(`the built shop has no ${file}`);
} finally {
  rmSync(directory, { recursive: true, force: true });
}
console.log('examples: installed and built one in a copy');
