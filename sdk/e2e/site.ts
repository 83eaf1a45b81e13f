import { readFileSync } from 'node:fs';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import type { Product } from './product';

const readBuilt = (name: string) =>
  readFileSync(fileURLToPath(new URL(`../packages/browser/dist/${name}`, import.meta.url)));

const readFile = (path: string) => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8');

/** What the proxy does with a request to the product. */
export type ProxyAction =
  | { kind: 'forward' }
  /** Responds instead of the product. */
  | { kind: 'respond'; status: number; headers?: Record<string, string>; html?: string }
  /** Cuts the connection before or after the product has received the request. */
  | { kind: 'cut'; after: boolean };

export interface ProxiedRequest {
  method: string;
  path: string;
  body: string;
  status: number | 'cut';
  at: number;
}

/** Waits until the SDK is loaded and has replaced the stub. */
export async function loaded(page: Page): Promise<void> {
  await page.waitForFunction(() => {
    const { rekindle } = globalThis as { rekindle?: object };
    return rekindle && !('calls' in rekindle);
  });
}

/** A customer's website, and a proxy to the product on another origin. */
export class Site {
  action: (request: { method: string; path: string }) => ProxyAction = () => ({ kind: 'forward' });
  readonly requests: ProxiedRequest[] = [];
  /** Response headers of every page. */
  headers: Record<string, string> = {};

  private constructor(
    private readonly product: Product,
    private readonly pages: Server,
    private readonly proxy: Server,
  ) {}

  static async open(product: Product): Promise<Site> {
    const [pages, proxy] = [createServer(), createServer()];
    const site = new Site(product, pages, proxy);
    pages.on('request', (request, response) => site.page(request, response));
    proxy.on('request', (request, response) => void site.forward(request, response));
    for (const server of [pages, proxy]) await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    return site;
  }

  get origin(): string {
    return `http://localhost:${(this.pages.address() as AddressInfo).port}`;
  }

  get api(): string {
    return `http://localhost:${(this.proxy.address() as AddressInfo).port}`;
  }

  close(): void {
    for (const server of [this.pages, this.proxy]) {
      server.closeAllConnections();
      server.close();
    }
  }

  private page(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', this.origin);
    const script =
      /^\/sdk\/v1\/(web|stub|rekindle-sw)\.js$/.exec(url.pathname)?.[1] ??
      /^\/(rekindle-sw)\.js$/.exec(url.pathname)?.[1];
    if (script)
      return void response.writeHead(200, { 'content-type': 'text/javascript' }).end(readBuilt(`${script}.js`));
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
        .end(this.fillIn(readFile('examples/plain/index.html')));
    if (url.pathname === '/readme') {
      const [, lines = ''] = /^```html\n([^]*?)^```$/m.exec(readFile('README.md')) ?? [];
      return void response
        .writeHead(200, { 'content-type': 'text/html' })
        .end(`<!doctype html><title>Shop</title>${this.fillIn(lines)}`);
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

  /** Returns an example with its placeholders replaced. */
  private fillIn(example: string): string {
    const { projectId, publicKey, url } = this.product;
    const values = {
      'http://localhost:8080': new URL(url).origin,
      YOUR_PROJECT_ID: projectId,
      YOUR_PUBLIC_KEY: publicKey,
    };
    return Object.entries(values).reduce((text, [from, to]) => text.replaceAll(from, to), example);
  }

  /** Streams a response that does not end. */
  private async forwardStream(answer: Response, response: ServerResponse): Promise<void> {
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    for await (const chunk of answer.body ?? []) response.write(chunk);
    response.end();
  }

  private async forward(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const { method = 'GET', url: path = '/' } = request;
    const log = (status: number | 'cut') =>
      void this.requests.push({ method, path, body: body.toString(), status, at: Date.now() });
    // Preflight requests are forwarded; the action applies to the actual request.
    const action: ProxyAction = method === 'OPTIONS' ? { kind: 'forward' } : this.action({ method, path });
    if (action.kind === 'respond') {
      log(action.status);
      const cors = { 'access-control-allow-origin': '*', 'access-control-expose-headers': 'Retry-After' };
      const type = action.html ? 'text/html' : 'application/json';
      return void response
        .writeHead(action.status, { ...cors, ...action.headers, 'content-type': type })
        .end(action.html ?? '{}');
    }
    if (action.kind === 'cut' && !action.after) {
      log('cut');
      return void request.socket.destroy();
    }
    const target = new URL(this.product.url);
    const closed = new AbortController();
    response.on('close', () => closed.abort());
    const { host: _, connection: __, 'content-length': ___, ...headers } = request.headers;
    try {
      const answer = await fetch(`${target.origin}${path}`, {
        method,
        headers: headers as Record<string, string>,
        body: body.length ? body : undefined,
        signal: closed.signal,
      });
      if (answer.headers.get('content-type')?.startsWith('text/event-stream')) {
        log(answer.status);
        return await this.forwardStream(answer, response);
      }
      const text = Buffer.from(await answer.arrayBuffer());
      if (action.kind === 'cut') {
        log('cut');
        return void request.socket.destroy();
      }
      log(answer.status);
      const {
        'content-encoding': ____,
        'transfer-encoding': _____,
        'content-length': ______,
        ...plain
      } = Object.fromEntries(answer.headers);
      response.writeHead(answer.status, plain).end(text);
    } catch {
      // The product or the page is closed.
      request.socket.destroy();
    }
  }
}
