import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { TestProject } from 'vitest/node';

const root = fileURLToPath(new URL('../..', import.meta.url));
const programs = process.env.REKINDLE_BIN ?? resolve(root, process.env.CARGO_TARGET_DIR ?? 'target', 'debug');

/** How to reach the started product. */
export interface Product {
  origin: string;
  projectId: string;
  publicKey: string;
  secretKey: string;
  email: string;
  password: string;
  mailDir: string;
}

declare module 'vitest' {
  export interface ProvidedContext {
    product: Product;
  }
}

/** Starts the product in its own directory, once for all tests. */
export default async function start({ provide }: TestProject): Promise<() => Promise<void>> {
  const { product, stop } = await startProduct();
  provide('product', product);
  return stop;
}

/** Starts the product like `make up`, with one empty project. */
export async function startProduct(): Promise<{ product: Product; stop: () => Promise<void> }> {
  const directory = mkdtempSync(join(tmpdir(), 'rekindle-dashboard-'));
  const environment = { ...process.env, RUN_DIR: directory, PORT: String(await freePort()) };
  const run = (command: string) => promisify(execFile)(join(programs, 'rekindle'), [command], { env: environment });
  const stop = async () => {
    try {
      await run('down');
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  };
  try {
    await run('up');
  } catch (failure) {
    // Stop the programs that did start.
    await stop();
    throw failure;
  }
  const credentials = JSON.parse(readFileSync(join(directory, 'credentials.json'), 'utf8')) as Record<string, string>;
  const credential = (name: string): string => {
    const value = credentials[name];
    if (!value) throw new Error(`credentials.json has no ${name}`);
    return value;
  };
  const product = {
    origin: new URL(credential('baseUrl')).origin,
    projectId: credential('projectId'),
    publicKey: credential('publicKey'),
    secretKey: credential('secretKey'),
    email: credential('adminEmail'),
    password: credential('adminPassword'),
    mailDir: credential('mailDir'),
  };
  return { product, stop };
}

function freePort(): Promise<number> {
  return new Promise((done, failed) => {
    const server = createServer().on('error', failed);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => (typeof address === 'object' && address ? done(address.port) : failed(new Error('no port'))));
    });
  });
}
