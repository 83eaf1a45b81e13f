import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser } from 'playwright-core';
import { build } from 'vite';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { launch, waited } from './fixture';
import { type Product, startProduct } from './product';

const CONTENT_TYPES: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript' };
let product: Product;
let browser: Browser;
let pages: Server;
const directory = mkdtempSync(join(tmpdir(), 'rekindle-shop-'));

beforeAll(async () => {
  product = await startProduct();
  vi.stubEnv('VITE_REKINDLE_URL', new URL(product.url).origin);
  vi.stubEnv('VITE_REKINDLE_PROJECT_ID', product.projectId);
  vi.stubEnv('VITE_REKINDLE_PUBLIC_KEY', product.publicKey);
  // Laid out by `npm run examples`, with the built packages.
  const root = fileURLToPath(new URL('../checked/vite-react', import.meta.url));
  await build({
    root,
    configFile: join(root, 'vite.config.ts'),
    logLevel: 'error',
    build: { outDir: directory, emptyOutDir: true },
  });
  pages = createServer((request, response) => {
    const path = new URL(request.url ?? '/', 'http://localhost').pathname;
    try {
      const file = path === '/' ? '/index.html' : path;
      const text = readFileSync(join(directory, file));
      response.writeHead(200, { 'content-type': CONTENT_TYPES[extname(file)] ?? 'text/plain' }).end(text);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((done) => pages.listen(0, '127.0.0.1', done));
  browser = await launch();
}, 180_000);

afterAll(async () => {
  await browser?.close();
  pages?.close();
  product?.stop();
  rmSync(directory, { recursive: true, force: true });
}, 60_000);

test('the React example, built by Vite, records each event once in strict mode, and a user logs in and out', async () => {
  const page = await browser.newPage();
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(error.message));
  await page.goto(`http://localhost:${(pages.address() as AddressInfo).port}/`);
  await page.getByLabel('Name').fill('react-ada');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('Hello react-ada').waitFor();
  await page.getByRole('button', { name: 'Red shoes' }).click();
  await page.getByRole('button', { name: 'Order for 49.5 €' }).click();
  // The project's server has not verified this user, so the inbox is rejected with the server's message.
  await page.getByRole('alert').filter({ hasText: 'user_hash' }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  await vi.waitFor(async () => {
    const { events } = await product.get<{ events: Array<{ eventName: string }> }>('/events?user=react-ada&limit=100');
    expect(events.map(({ eventName }) => eventName).toSorted()).toEqual([
      'added_to_cart',
      'app_opened',
      'order_completed',
      'screen_viewed',
    ]);
  }, waited);
  expect(errors).toEqual([]);
});
