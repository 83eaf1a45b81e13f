import type { BrowserContext, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';
import { adminContext, expectNoComplaints, open, withBrowser } from './browser';

/** Two admins, each with a browser context of their own, for the tests of a file. */
export interface TwoPeople {
  first: BrowserContext;
  second: BrowserContext;
  /** The same screen before the two. */
  both: (path: string) => Promise<[Page, Page]>;
  /** Neither browser had anything to complain of. */
  expectNoComplaints: () => void;
}

export function withTwoPeople(): TwoPeople {
  withBrowser();
  const people = {
    async both(path: string): Promise<[Page, Page]> {
      const pages: [Page, Page] = [await people.first.newPage(), await people.second.newPage()];
      for (const page of pages) await open(page, path);
      return pages;
    },
    expectNoComplaints() {
      for (const context of [people.first, people.second]) expectNoComplaints(context);
    },
  } as TwoPeople;
  beforeAll(async () => {
    people.first = await adminContext();
    people.second = await adminContext();
  });
  afterAll(async () => {
    await people.first?.close();
    await people.second?.close();
  });
  return people;
}

/** What one of them is told whose changes would overwrite the other's. */
export const conflict = (page: Page): Locator =>
  page.getByRole('alert').filter({ hasText: 'Somebody else has changed this meanwhile' });
