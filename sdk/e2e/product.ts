import { execFileSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
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
  /** Writes as its operator would. */
  post<T>(path: string, body: object): Promise<T>;
  /** What the customer's own server proves a user with. */
  userHash(user: string): string;
  stop(): void;
}

/** The whole product, started in a place of its own. */
export async function startProduct(variables: Record<string, string> = {}): Promise<Product> {
  const directory = mkdtempSync(join(tmpdir(), 'rekindle-sdk-'));
  const environment = { ...process.env, ...variables, RUN_DIR: directory, PORT: String(await freePort()) };
  const run = (command: string) => execFileSync(join(programs, 'rekindle'), [command], { env: environment, stdio: ['ignore', 'ignore', 'pipe'] });
  run('up');
  const text = readFileSync(join(directory, 'env'), 'utf8');
  const value = (name: string) => new RegExp(`${name}='([^']+)'`).exec(text)?.[1] ?? '';
  const [url, secretKey] = [value('REKINDLE_URL'), value('REKINDLE_SECRET_KEY')];
  const state = JSON.parse(readFileSync(join(directory, 'state.json'), 'utf8')) as { first: { identitySecret: string } };
  const ask = async <T>(path: string, init: RequestInit): Promise<T> => {
    const answer = await fetch(url + path, { ...init, headers: { 'x-api-key': secretKey, 'content-type': 'application/json' } });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  };
  return {
    url,
    secretKey,
    projectId: value('REKINDLE_PROJECT_ID'),
    publicKey: value('REKINDLE_PUBLIC_KEY'),
    get: (path) => ask(path, {}),
    post: (path, body) => ask(path, { method: 'POST', body: JSON.stringify(body) }),
    userHash: (user) => createHmac('sha256', state.first.identitySecret).update(user).digest('hex'),
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
