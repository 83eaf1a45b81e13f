import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const programs = process.env.REKINDLE_BIN ?? join(root, process.env.CARGO_TARGET_DIR ?? 'target', 'debug');

export interface Product {
  url: string;
  projectId: string;
  publicKey: string;
  secretKey: string;
  /** Reads the API as its operator would. */
  get<T>(path: string): Promise<T>;
  stop(): void;
}

/** The whole product, started in a place of its own. */
export async function startProduct(): Promise<Product> {
  const directory = mkdtempSync(join(tmpdir(), 'rekindle-sdk-'));
  const environment = { ...process.env, RUN_DIR: directory, PORT: String(await freePort()) };
  const run = (command: string) => execFileSync(join(programs, 'rekindle'), [command], { env: environment, stdio: ['ignore', 'ignore', 'pipe'] });
  run('up');
  const text = readFileSync(join(directory, 'env'), 'utf8');
  const value = (name: string) => new RegExp(`${name}='([^']+)'`).exec(text)?.[1] ?? '';
  const [url, secretKey] = [value('REKINDLE_URL'), value('REKINDLE_SECRET_KEY')];
  return {
    url,
    secretKey,
    projectId: value('REKINDLE_PROJECT_ID'),
    publicKey: value('REKINDLE_PUBLIC_KEY'),
    async get<T>(path: string): Promise<T> {
      const answer = await fetch(url + path, { headers: { 'x-api-key': secretKey } });
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
      return (await answer.json()) as T;
    },
    stop() {
      run('down');
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

export function freePort(): Promise<number> {
  return new Promise((done, failed) => {
    const server = createServer().on('error', failed);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => done(port));
    });
  });
}
