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
  /** Reads from the API with the secret key. */
  get<T>(path: string): Promise<T>;
  /** Writes to the API with the secret key. */
  post<T>(path: string, body: object): Promise<T>;
  /** Changes a setting of the project. */
  set(settings: object): Promise<void>;
  /** Returns the hash with which the customer's server verifies a user. */
  userHash(user: string): string;
  /** Returns a JWT that verifies the user and expires after `seconds`. */
  userToken(user: string, seconds: number): string;
  stop(): void;
}

/** Starts the whole product in its own directory. */
export async function startProduct(variables: Record<string, string> = {}): Promise<Product> {
  const directory = mkdtempSync(join(tmpdir(), 'rekindle-sdk-'));
  const environment = { ...process.env, ...variables, RUN_DIR: directory, PORT: String(await freePort()) };
  const run = (command: string) =>
    execFileSync(join(programs, 'rekindle'), [command], { env: environment, stdio: ['ignore', 'ignore', 'pipe'] });
  run('up');
  const text = readFileSync(join(directory, 'env'), 'utf8');
  const value = (name: string) => new RegExp(`${name}='([^']+)'`).exec(text)?.[1] ?? '';
  const [url, secretKey] = [value('REKINDLE_URL'), value('REKINDLE_SECRET_KEY')];
  const state = JSON.parse(readFileSync(join(directory, 'state.json'), 'utf8')) as {
    first: { identitySecret: string; adminEmail: string; adminPassword: string };
  };
  const request = async <T>(path: string, init: RequestInit): Promise<T> => {
    const answer = await fetch(url + path, {
      ...init,
      headers: { 'x-api-key': secretKey, 'content-type': 'application/json' },
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  };
  return {
    url,
    secretKey,
    projectId: value('REKINDLE_PROJECT_ID'),
    publicKey: value('REKINDLE_PUBLIC_KEY'),
    get: (path) => request(path, {}),
    post: (path, body) => request(path, { method: 'POST', body: JSON.stringify(body) }),
    async set(settings) {
      const { adminEmail: email, adminPassword: password } = state.first;
      const json = { 'content-type': 'application/json' };
      const login = await fetch(`${url}/auth/login`, {
        method: 'POST',
        headers: json,
        body: JSON.stringify({ email, password }),
      });
      const { csrfToken } = (await login.json()) as { csrfToken: string };
      const [cookie = ''] = (login.headers.get('set-cookie') ?? '').split(';');
      const projectId = value('REKINDLE_PROJECT_ID');
      const path = `${url}/projects/${projectId}`;
      const headers = { ...json, cookie, 'x-csrf-token': csrfToken, 'x-project-id': projectId };
      const answer = await fetch(path, { method: 'PUT', headers, body: JSON.stringify(settings) });
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    },
    userToken(user, seconds) {
      const encoded = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
      const signed = `${encoded({ alg: 'HS256', typ: 'JWT' })}.${encoded({ sub: user, exp: Math.floor(Date.now() / 1_000) + seconds })}`;
      return `${signed}.${createHmac('sha256', state.first.identitySecret).update(signed).digest('base64url')}`;
    },
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
