import { type Browser, type BrowserContext, type Page, chromium } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, vi } from 'vitest';
import { type Product, startProduct } from './product';
import { Site, loaded } from './site';

/** As long as anything may take that is on its way. */
export const waited = { timeout: 15_000, interval: 100 };
/** Nothing is recorded that a test has not called. */
export const quiet = { autoTrackLifecycle: false, autoTrackScreens: false };

/** An event as the product shows it to its operator. */
export interface Event {
  id: string;
  eventName: string;
  userId: string | null;
  anonymousId: string | null;
  properties: Record<string, unknown>;
  timestamp: string;
}

export function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
}

/** The product and a browser for the tests of a file; for each of them a site, and a context without a past. */
export class Fixture {
  product!: Product;
  browser!: Browser;
  site!: Site;
  context!: BrowserContext;

  /** A page with the script tag, begun with these options. */
  async open(options: object = {}): Promise<Page> {
    const page = await this.context.newPage();
    await page.goto(`${this.site.origin}/shop?with=${encodeURIComponent(JSON.stringify(options))}`);
    await loaded(page);
    return page;
  }

  async events(user: string): Promise<Event[]> {
    return (await this.product.get<{ events: Event[] }>(`/events?user=${user}&limit=100`)).events;
  }

  /** Waits until the product has recorded so many of the person. */
  recorded(user: string, count: number): Promise<Event[]> {
    return vi.waitFor(async () => {
      const found = await this.events(user);
      expect(found.length).toBeGreaterThanOrEqual(count);
      return found;
    }, waited);
  }

  async users(text: string): Promise<Array<Record<string, unknown>>> {
    return (await this.product.get<{ users: Array<Record<string, unknown>> }>(`/users?search=${text}`)).users;
  }
}

/** Sees to all of it, before and after the tests of the file that calls this. */
export function fixture(): Fixture {
  const made = new Fixture();

  beforeAll(async () => {
    made.product = await startProduct();
    made.browser = await launch();
  }, 180_000);

  afterAll(async () => {
    await made.browser?.close();
    made.product?.stop();
  }, 60_000);

  beforeEach(async () => {
    made.site = await Site.open(made.product);
    made.context = await made.browser.newContext();
  });

  afterEach(async () => {
    await made.context.close();
    made.site.close();
  });

  return made;
}
