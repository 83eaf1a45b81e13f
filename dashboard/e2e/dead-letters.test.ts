import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  adminContext,
  call,
  eventually,
  expectCount,
  expectNoComplaints,
  mails,
  open,
  picture,
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

/** Says by what mail goes, as an admin does; returns the host that there was. */
async function sendBy(provider: string, host: string): Promise<string> {
  await open(page, 'channels');
  await page.getByLabel('Provider', { exact: true }).selectOption({ label: provider });
  const before = await page.getByLabel('SMTP host').inputValue();
  await page.getByLabel('SMTP host').fill(host);
  expect(await press(page, 'Save')).toBe(200);
  return before;
}

test('what could not be sent is mended, and replayed', async () => {
  const people = [0, 1, 2].map(() => unique('late').replace(' ', '-'));
  const probe = unique('probe').replace(' ', '-');
  const send = (who: string) =>
    call('POST', '/messages', { userId: who, channel: 'EMAIL', subject: `For ${who}`, body: '<p>At last.</p>' });
  const letters = () =>
    call<{ total: number; deadLetters: Array<{ userId: string }> }>(
      'GET',
      '/dead-letters?reason=channel_not_configured&limit=100',
    );
  for (const who of [probe, ...people])
    await call('POST', '/users/identify', { user_id: who, properties: { email: `${who}@example.com` } });
  await eventually(async () =>
    expect(await call('GET', `/users/${people[2]}`)).toMatchObject({ email: `${people[2]}@example.com` }),
  );
  const host = await sendBy('None', '');
  // Delivery hears of it a moment later.
  await eventually(async () => {
    await send(probe);
    expect((await letters()).total).toBeGreaterThan(0);
  });
  for (const who of people) await send(who);
  await eventually(async () =>
    expect((await letters()).deadLetters.map(({ userId }) => userId)).toEqual(expect.arrayContaining(people)),
  );

  await open(page, 'dead-letters?reason=channel_not_configured');
  const list = page.getByRole('region', { name: 'Dead letters' });
  const row = (who: string | undefined) => list.getByRole('row').filter({ hasText: who });
  for (const who of people) await row(who).getByText('channel_not_configured').waitFor();
  await picture(page, 'act-dead-letters');
  await sendBy('SMTP', host);
  const last = unique('probe').replace(' ', '-');
  await call('POST', '/users/identify', { user_id: last, properties: { email: `${last}@example.com` } });
  await eventually(async () => {
    await send(last);
    expect(mails(`${last}@example.com`).length).toBeGreaterThan(0);
  });
  // One by one, or all together.
  await open(page, 'dead-letters?reason=channel_not_configured');
  await row(people[0]).getByRole('button', { name: 'Replay' }).click();
  await page.getByText('1 is tried again.').waitFor();
  await eventually(() => expect(mails(`${people[0]}@example.com`)).toHaveLength(1));
  await expectCount(row(people[0]), 0);
  const all = /^Replay all \d+ that are listed$/;
  await page.getByRole('button', { name: all }).click();
  await page.getByRole('dialog').getByRole('button', { name: all }).click();
  await page.getByText('are tried again.').waitFor();
  for (const who of people) await eventually(() => expect(mails(`${who}@example.com`)).toHaveLength(1));
  await settled(page);
  await page.getByText('None matches these filters.').waitFor();
  expectNoComplaints(context);
});
