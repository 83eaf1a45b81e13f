import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { call, expectAccessible, expectCount, expectValue, screenshot, press, unique } from './browser';
import { conflict, withTwoAdmins } from './two-admins';

const admins = withTwoAdmins();
const { openForBoth } = admins;

const expectClosed = (page: Page) => expectCount(page.getByRole('dialog'), 0);

async function closePages(pages: Page[]): Promise<void> {
  for (const page of pages) await page.close();
  admins.expectNoBrowserErrors();
}

test.each([
  ['news', { title: 'Title', one: 'Text', other: 'body', name: 'title', body: { title: '', body: 'News.' } }],
  [
    'subscription-groups',
    { title: 'Name', one: 'Description', other: 'description', name: 'name', body: { name: '' } },
  ],
])(
  'conflicting edits of %s are detected and nothing is overwritten',
  async (resource, { title, one, other, name, body }) => {
    const recordName = unique('Shared');
    const { id } = await call<{ id: string }>('POST', `/${resource}`, { ...body, [name]: recordName });
    const stored = () => call('GET', `/${resource}/${id}`);
    const pages = await openForBoth(resource);
    for (const page of pages) {
      await page.getByRole('row', { name: recordName }).getByRole('button', { name: 'Edit' }).click();
      await expectValue(page.getByRole('dialog').getByLabel(title), recordName);
    }
    const [first, second] = pages;
    await first.getByRole('dialog').getByLabel(one).fill('theirs');
    expect(await press(first, 'Save')).toBe(200);
    await expectClosed(first);
    await first.getByRole('row', { name: recordName }).waitFor();

    await second.getByRole('dialog').getByLabel(title).fill(`${recordName} too`);
    expect(await press(second, 'Save')).toBe(412);
    await conflict(second).getByText('Nothing was overwritten').waitFor();
    await expectAccessible(second, `conflict in ${resource}`);
    await screenshot(second, `act-conflict-${resource}`);
    expect(await stored()).toMatchObject({ [name]: recordName, [other]: 'theirs' });
    // Only the fields changed here are overwritten.
    expect(await press(second, 'Overwrite')).toBe(200);
    await expectClosed(second);
    expect(await stored()).toMatchObject({ [name]: `${recordName} too`, [other]: 'theirs' });

    // Reopening the form loads the current version, and so does discarding the changes after a later conflict.
    await first.getByRole('row', { name: recordName }).getByRole('button', { name: 'Edit' }).click();
    const field = first.getByRole('dialog').getByLabel(title);
    await expectValue(field, `${recordName} too`);
    await call('PUT', `/${resource}/${id}`, { [name]: `${recordName} three` });
    await field.fill(`${recordName} mine`);
    expect(await press(first, 'Save')).toBe(412);
    await conflict(first).getByRole('button', { name: 'Discard my changes' }).click();
    await expectValue(field, `${recordName} three`);
    await first.keyboard.press('Escape');
    await expectClosed(first);
    await closePages(pages);
  },
);

/** Saves the form of a tab and waits for the notification; until then the tab must not be left. */
async function save(page: Page): Promise<void> {
  expect(await press(page, 'Save')).toBe(200);
  const notification = page.getByText('Channel saved.');
  await notification.waitFor();
  await page.getByRole('button', { name: 'Close' }).click();
  await expectCount(notification, 0);
}

test('conflicting edits of the channels are detected and nothing is overwritten', async () => {
  const before = await call<{ email: { fromName: string | null } }>('GET', '/channels');
  const pages = await openForBoth('channels');
  const [first, second] = pages;
  const sender = (page: Page) => page.getByLabel('From name');
  await sender(first).fill('Theirs');
  await save(first);
  // A change on one tab is no conflict for the other tabs: they save under the new entity tag.
  await first.getByRole('tab', { name: 'SMS' }).click();
  await first.getByLabel('Account ID').fill('AC1');
  await save(first);
  await first.getByRole('tab', { name: 'Sending limits' }).click();
  await first.getByLabel('Enable quiet hours').check();
  await save(first);
  await first.getByLabel('Enable quiet hours').uncheck();
  await save(first);

  await sender(second).fill('Mine');
  expect(await press(second, 'Save')).toBe(412);
  await conflict(second).getByText('Nothing was overwritten').waitFor();
  expect(await call('GET', '/channels')).toMatchObject({ email: { fromName: 'Theirs' } });
  await expectValue(sender(second), 'Mine');
  await conflict(second).getByRole('button', { name: 'Discard my changes' }).click();
  await expectValue(sender(second), 'Theirs');
  await sender(second).fill('After theirs');
  await save(second);
  expect(await call('GET', '/channels')).toMatchObject({ email: { fromName: 'After theirs' } });
  expect(await call('GET', '/channels')).toMatchObject({ sms: { accountId: 'AC1' } });
  await call('PUT', '/channels', { emailFromName: before.email.fromName, smsAccountId: null });
  await closePages(pages);
});
