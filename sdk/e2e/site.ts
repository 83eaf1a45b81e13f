import { readFileSync } from 'node:fs';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import type { Product } from './product';

const built = (name: string) =>
  readFileSync(fileURLToPath(new URL(`../packages/browser/dist/${name}`, import.meta.url)));

const text = (path: string) => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8');

/** What happens to a request on its way to the product. */
export type Weather =
  | { kind: 'through' }
  /** Refused before it gets there. */
  | { kind: 'refuse'; status: number; headers?: Record<string, string>; html?: string }
  /** The connection ends, before it got there or after. */
  | { kind: 'cut'; after: boolean };

export interface Passed {
  method: string;
  path: string;
  body: string;
  status: number | 'cut';
  at: number;
}

/** The SDK is there, and has taken over from what stood for it. */
export async function loaded(page: Page): Promise<void> {
  await page.waitForFunction(() => {
    const { rekindle } = globalThis as { rekindle?: object };
    return rekindle && !('calls' in rekindle);
  });
}

/** A customer's website, and the road from it to the product: on another origin, as in life. */
export class Site {
  weather: (request: { method: string; path: string }) => Weather = () => ({ kind: 'through' });
  readonly passed: Passed[] = [];
  /** Headers of every page. */
  headers: Record<string, string> = {};

  private constructor(
    private readonly product: Product,
    private readonly pages: Server,
    private readonly road: Server,
  ) {}

  static async open(product: Product): Promise<Site> {
    const [pages, road] = [createServer(), createServer()];
    const site = new Site(product, pages, road);
    pages.on('request', (request, response) => site.page(request, response));
    road.on('request', (request, response) => void site.pass(request, response));
    for (const server of [pages, road]) await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    return site;
  }

  get origin(): string {
    return `http://localhost:${(this.pages.address() as AddressInfo).port}`;
  }

  get api(): string {
    return `http://localhost:${(this.road.address() as AddressInfo).port}`;
  }

  close(): void {
    for (const server of [this.pages, this.road]) {
      server.closeAllConnections();
      server.close();
    }
  }

  private page(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', this.origin);
    const script =
      /^\/sdk\/v1\/(web|stub|rekindle-sw)\.js$/.exec(url.pathname)?.[1] ??
      /^\/(rekindle-sw)\.js$/.exec(url.pathname)?.[1];
    if (script) return void response.writeHead(200, { 'content-type': 'text/javascript' }).end(built(`${script}.js`));
    if (url.pathname === '/start.js')
      return void response
        .writeHead(200, { 'content-type': 'text/javascript' })
        .end(this.start(url.searchParams.get('with')));
    if (url.pathname === '/own-worker.js') {
      return void response
        .writeHead(200, { 'content-type': 'text/javascript' })
        .end("importScripts('/rekindle-sw.js');");
    }
    if (url.pathname === '/example')
      return void response
        .writeHead(200, { 'content-type': 'text/html' })
        .end(this.filled(text('examples/plain/index.html')));
    if (url.pathname === '/readme') {
      const [, lines = ''] = /^```html\n([^]*?)^```$/m.exec(text('README.md')) ?? [];
      return void response
        .writeHead(200, { 'content-type': 'text/html' })
        .end(`<!doctype html><title>Shop</title>${this.filled(lines)}`);
    }
    if (url.pathname === '/served') {
      const html = `<!doctype html><title>Shop</title><script src="${this.api}/sdk/v1/web.js"></script>`;
      return void response.writeHead(200, { 'content-type': 'text/html', ...this.headers }).end(html);
    }
    if (url.pathname === '/pinned') {
      const tag = `<script src="${this.api}${url.searchParams.get('path')}" integrity="${url.searchParams.get('integrity')}" crossorigin="anonymous"></script>`;
      return void response
        .writeHead(200, { 'content-type': 'text/html' })
        .end(`<!doctype html><title>Shop</title>${tag}`);
    }
    if (url.pathname === '/bare')
      return void response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>Bare</title>');
    const start = `/start.js?with=${encodeURIComponent(url.searchParams.get('with') ?? '{}')}`;
    const tags = ['/sdk/v1/stub.js', start].map((src) => `<script src="${src}"></script>`);
    const html = `<!doctype html><title>Shop</title>${tags.join('')}<script async src="/sdk/v1/web.js"></script><h1>Shop</h1>`;
    response.writeHead(200, { 'content-type': 'text/html', ...this.headers }).end(html);
  }

  private start(change: string | null): string {
    const { projectId, publicKey } = this.product;
    const options = { projectId, apiKey: publicKey, apiUrl: this.api, ...(JSON.parse(change ?? '{}') as object) };
    return `rekindle.init(${JSON.stringify(options)});`;
  }

  /** An example, as a newcomer has filled it in. */
  private filled(example: string): string {
    const { projectId, publicKey, url } = this.product;
    const values = {
      'http://localhost:8080': new URL(url).origin,
      YOUR_PROJECT_ID: projectId,
      YOUR_PUBLIC_KEY: publicKey,
    };
    return Object.entries(values).reduce((text, [from, to]) => text.replaceAll(from, to), example);
  }

  /** An answer that does not end, as it comes. */
  private async passOn(answer: Response, response: ServerResponse): Promise<void> {
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    for await (const chunk of answer.body ?? []) response.write(chunk);
    response.end();
  }

  private async pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const { method = 'GET', url: path = '/' } = request;
    const note = (status: number | 'cut') =>
      void this.passed.push({ method, path, body: body.toString(), status, at: Date.now() });
    // A browser asks first whether it may; the weather is for what it then sends.
    const weather: Weather = method === 'OPTIONS' ? { kind: 'through' } : this.weather({ method, path });
    if (weather.kind === 'refuse') {
      note(weather.status);
      const cors = { 'access-control-allow-origin': '*', 'access-control-expose-headers': 'Retry-After' };
      const type = weather.html ? 'text/html' : 'application/json';
      return void response
        .writeHead(weather.status, { ...cors, ...weather.headers, 'content-type': type })
        .end(weather.html ?? '{}');
    }
    if (weather.kind === 'cut' && !weather.after) {
      note('cut');
      return void request.socket.destroy();
    }
    const target = new URL(this.product.url);
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    const { host: _, connection: __, 'content-length': ___, ...headers } = request.headers;
    try {
      const answer = await fetch(`${target.origin}${path}`, {
        method,
        headers: headers as Record<string, string>,
        body: body.length ? body : undefined,
        signal: gone.signal,
      });
      if (answer.headers.get('content-type')?.startsWith('text/event-stream')) {
        note(answer.status);
        return await this.passOn(answer, response);
      }
      const text = Buffer.from(await answer.arrayBuffer());
      if (weather.kind === 'cut') {
        note('cut');
        return void request.socket.destroy();
      }
      note(answer.status);
      const {
        'content-encoding': ____,
        'transfer-encoding': _____,
        'content-length': ______,
        ...plain
      } = Object.fromEntries(answer.headers);
      response.writeHead(answer.status, plain).end(text);
    } catch {
      // The product is away, or the page is.
      request.socket.destroy();
    }
  }
}
