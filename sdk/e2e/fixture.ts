import { type Browser, type BrowserContext, type Page, chromium } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, vi } from 'vitest';
import { type Product, startProduct } from './product';
import { Site, loaded } from './site';

/** How long to wait for asynchronous results. */
export const waited = { timeout: 15_000, interval: 100 };
/** Options with which only the test's own calls are recorded. */
export const quiet = { autoTrackLifecycle: false, autoTrackScreens: false };

/** An event of the API. */
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

/** The product and a browser for the tests of a file; a site and a new browser context for each test. */
export class Fixture {
  product!: Product;
  browser!: Browser;
  site!: Site;
  context!: BrowserContext;

  /** Opens a page with the script tag and these options. */
  async open(options: object = {}): Promise<Page> {
    const page = await this.context.newPage();
    await page.goto(`${this.site.origin}/shop?with=${encodeURIComponent(JSON.stringify(options))}`);
    await loaded(page);
    return page;
  }

  async events(user: string): Promise<Event[]> {
    return (await this.product.get<{ events: Event[] }>(`/events?user=${user}&limit=100`)).events;
  }

  /** Waits until the product has recorded at least `count` events of the user. */
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

/** Sets up the fixture before the tests of the calling file, and removes it after them. */
export function fixture(): Fixture {
  const fixture = new Fixture();

  beforeAll(async () => {
    fixture.product = await startProduct();
    fixture.browser = await launch();
  }, 180_000);

  afterAll(async () => {
    await fixture.browser?.close();
    fixture.product?.stop();
  }, 60_000);

  beforeEach(async () => {
    fixture.site = await Site.open(fixture.product);
    fixture.context = await fixture.browser.newContext();
  });

  afterEach(async () => {
    await fixture.context.close();
    fixture.site.close();
  });

  return fixture;
}
