import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  adminContext,
  call,
  eventually,
  expectCount,
  expectNoBrowserErrors,
  mails,
  open,
  screenshot,
  press,
  settled,
  unique,
  withBrowser,
} from './browser';

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

/** Sets the email provider as an admin; returns the previous SMTP host. */
async function setProvider(provider: string, host: string): Promise<string> {
  await open(page, 'channels');
  await page.getByLabel('Provider', { exact: true }).selectOption({ label: provider });
  const before = await page.getByLabel('SMTP host').inputValue();
  await page.getByLabel('SMTP host').fill(host);
  expect(await press(page, 'Save')).toBe(200);
  return before;
}

test('failed messages are retried after the cause is fixed', async () => {
  const userIds = [0, 1, 2].map(() => unique('late').replace(' ', '-'));
  const probe = unique('probe').replace(' ', '-');
  const send = (userId: string) =>
    call('POST', '/messages', { userId, channel: 'EMAIL', subject: `For ${userId}`, body: '<p>At last.</p>' });
  const letters = () =>
    call<{ total: number; deadLetters: Array<{ userId: string }> }>(
      'GET',
      '/dead-letters?reason=channel_not_configured&limit=100',
    );
  for (const userId of [probe, ...userIds])
    await call('POST', '/users/identify', { user_id: userId, properties: { email: `${userId}@example.com` } });
  await eventually(async () =>
    expect(await call('GET', `/users/${userIds[2]}`)).toMatchObject({ email: `${userIds[2]}@example.com` }),
  );
  const host = await setProvider('None', '');
  // The delivery workers notice the change a moment later.
  await eventually(async () => {
    await send(probe);
    expect((await letters()).total).toBeGreaterThan(0);
  });
  for (const userId of userIds) await send(userId);
  await eventually(async () =>
    expect((await letters()).deadLetters.map(({ userId }) => userId)).toEqual(expect.arrayContaining(userIds)),
  );

  await open(page, 'dead-letters?reason=channel_not_configured');
  const list = page.getByRole('region', { name: 'Failed messages' });
  const row = (userId: string | undefined) => list.getByRole('row').filter({ hasText: userId });
  for (const userId of userIds) {
    await row(userId).getByText('Channel not configured').waitFor();
    // The code, by which the list can be filtered.
    await row(userId).getByText('channel_not_configured', { exact: true }).waitFor();
  }
  await screenshot(page, 'act-dead-letters');
  await setProvider('SMTP', host);
  const last = unique('probe').replace(' ', '-');
  await call('POST', '/users/identify', { user_id: last, properties: { email: `${last}@example.com` } });
  await eventually(async () => {
    await send(last);
    expect(mails(`${last}@example.com`).length).toBeGreaterThan(0);
  });
  // One at a time, and all at once.
  await open(page, 'dead-letters?reason=channel_not_configured');
  await row(userIds[0]).getByRole('button', { name: 'Retry' }).click();
  await page.getByText('Retrying 1 item.').waitFor();
  await eventually(() => expect(mails(`${userIds[0]}@example.com`)).toHaveLength(1));
  await expectCount(row(userIds[0]), 0);
  const all = /^Retry all \d+ listed$/;
  await page.getByRole('button', { name: all }).click();
  await page.getByRole('dialog').getByRole('button', { name: all }).click();
  await page.getByText(/Retrying \d+ items\./).waitFor();
  for (const userId of userIds) await eventually(() => expect(mails(`${userId}@example.com`)).toHaveLength(1));
  await settled(page);
  await page.getByText('No failed messages match these filters.').waitFor();
  expectNoBrowserErrors(context);
});
