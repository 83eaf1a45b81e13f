import type { BrowserContext, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';
import { adminContext, expectNoBrowserErrors, open, withBrowser } from './browser';

/** Two admins, each with a browser context of their own, for the tests of a file. */
export interface TwoAdmins {
  first: BrowserContext;
  second: BrowserContext;
  /** Opens the same screen in both browsers. */
  openForBoth: (path: string) => Promise<[Page, Page]>;
  /** Fails if a browser reported an error. */
  expectNoBrowserErrors: () => void;
}

export function withTwoAdmins(): TwoAdmins {
  withBrowser();
  const admins = {
    async openForBoth(path: string): Promise<[Page, Page]> {
      const pages: [Page, Page] = [await admins.first.newPage(), await admins.second.newPage()];
      for (const page of pages) await open(page, path);
      return pages;
    },
    expectNoBrowserErrors() {
      for (const context of [admins.first, admins.second]) expectNoBrowserErrors(context);
    },
  } as TwoAdmins;
  beforeAll(async () => {
    admins.first = await adminContext();
    admins.second = await adminContext();
  });
  afterAll(async () => {
    await admins.first?.close();
    await admins.second?.close();
  });
  return admins;
}

/** The alert about changes that would overwrite those of the other admin. */
export const conflict = (page: Page): Locator => page.getByRole('alert').filter({ hasText: 'Changed by someone else' });
