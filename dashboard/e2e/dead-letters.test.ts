import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { adminContext, call, eventually, expectNoComplaints, mails, open, picture, press, settled, unique, withBrowser } from './browser';

withBrowser();
let context: BrowserContext;
let page: Page;

beforeAll(async () => {
  context = await adminContext();
  page = await context.newPage();
});

afterAll(async () => {
  await context?.close();
});

/** Chooses by what mail goes, as an admin does. */
async function sendBy(provider: string): Promise<void> {
  await open(page, 'channels');
  await page.getByLabel('Provider', { exact: true }).selectOption({ label: provider });
  expect(await press(page, 'Save')).toBe(200);
}

test('what could not be sent is mended, and replayed', async () => {
  const people = [0, 1, 2].map(() => unique('late').replace(' ', '-'));
  for (const who of people) await call('POST', '/users/identify', { user_id: who, properties: { email: `${who}@example.com` } });
  await eventually(async () => expect(await call('GET', `/users/${people[2]}`)).toMatchObject({ email: `${people[2]}@example.com` }));
  await sendBy('None');
  for (const who of people) await call('POST', '/messages', { userId: who, channel: 'EMAIL', subject: `For ${who}`, body: '<p>At last.</p>' });
  await eventually(async () => expect((await call<{ total: number }>('GET', '/dead-letters?reason=channel_not_configured')).total).toBe(people.length));

  await open(page, 'dead-letters?reason=channel_not_configured');
  const list = page.getByRole('region', { name: 'Dead letters' });
  const row = (who: string | undefined) => list.getByRole('row').filter({ hasText: who });
  for (const who of people) await row(who).getByText('channel_not_configured').waitFor();
  await picture(page, 'act-dead-letters');
  // What is not mended comes back; what is mended is sent, one by one or all together.
  await sendBy('SMTP');
  await open(page, 'dead-letters?reason=channel_not_configured');
  await row(people[0]).getByRole('button', { name: 'Replay' }).click();
  await page.getByText('1 is tried again.').waitFor();
  await eventually(() => expect(mails(`${people[0]}@example.com`)).toHaveLength(1));
  await eventually(async () => expect(await row(people[0]).count()).toBe(0));
  await page.getByRole('button', { name: 'Replay all 2 that are listed' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Replay all 2 that are listed' }).click();
  await page.getByText('2 are tried again.').waitFor();
  for (const who of people) await eventually(() => expect(mails(`${who}@example.com`)).toHaveLength(1));
  await settled(page);
  await page.getByText('None matches these filters.').waitFor();
  expectNoComplaints(context);
});
