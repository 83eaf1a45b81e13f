import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { call, expectAccessible, expectCount, expectValue, picture, press, unique } from './browser';
import { conflict, withTwoPeople } from './two-people';

const people = withTwoPeople();
const { both } = people;

const closed = (page: Page) => expectCount(page.getByRole('dialog'), 0);

async function done(pages: Page[]): Promise<void> {
  for (const page of pages) await page.close();
  people.expectNoComplaints();
}

test.each([
  ['news', { title: 'Title', one: 'Text', other: 'body', name: 'title', body: { title: '', body: 'News.' } }],
  [
    'subscription-groups',
    { title: 'Name', one: 'Description', other: 'description', name: 'name', body: { name: '' } },
  ],
])(
  'two people edit the same of the %s: the second is told, and nothing is overwritten',
  async (place, { title, one, other, name, body }) => {
    const called = unique('Shared');
    const { id } = await call<{ id: string }>('POST', `/${place}`, { ...body, [name]: called });
    const stored = () => call('GET', `/${place}/${id}`);
    const pages = await both(place);
    for (const page of pages) {
      await page.getByRole('row', { name: called }).getByRole('button', { name: 'Edit' }).click();
      await expectValue(page.getByRole('dialog').getByLabel(title), called);
    }
    const [first, second] = pages;
    await first.getByRole('dialog').getByLabel(one).fill('theirs');
    expect(await press(first, 'Save')).toBe(200);
    await closed(first);
    await first.getByRole('row', { name: called }).waitFor();

    await second.getByRole('dialog').getByLabel(title).fill(`${called} too`);
    expect(await press(second, 'Save')).toBe(412);
    await conflict(second).getByText('Nothing was overwritten').waitFor();
    await expectAccessible(second, `conflict in ${place}`);
    await picture(second, `act-conflict-${place}`);
    expect(await stored()).toMatchObject({ [name]: called, [other]: 'theirs' });
    // Only what was changed here goes over theirs.
    expect(await press(second, 'Save mine over theirs')).toBe(200);
    await closed(second);
    expect(await stored()).toMatchObject({ [name]: `${called} too`, [other]: 'theirs' });

    // What is opened anew is theirs as well, and is loaded in place of one's own where one is told later.
    await first.getByRole('row', { name: called }).getByRole('button', { name: 'Edit' }).click();
    const field = first.getByRole('dialog').getByLabel(title);
    await expectValue(field, `${called} too`);
    await call('PUT', `/${place}/${id}`, { [name]: `${called} three` });
    await field.fill(`${called} mine`);
    expect(await press(first, 'Save')).toBe(412);
    await conflict(first).getByRole('button', { name: 'Load theirs, and drop mine' }).click();
    await expectValue(field, `${called} three`);
    await first.keyboard.press('Escape');
    await closed(first);
    await done(pages);
  },
);

/** Saves what stands on a tab, and sees it told: until then it is not left. */
async function save(page: Page): Promise<void> {
  expect(await press(page, 'Save')).toBe(200);
  const told = page.getByText('The channel is saved.');
  await told.waitFor();
  await page.getByRole('button', { name: 'Close' }).click();
  await expectCount(told, 0);
}

test('two people set up the channels: each part is theirs, and nothing is overwritten', async () => {
  const before = await call<{ email: { fromName: string | null } }>('GET', '/channels');
  const pages = await both('channels');
  const [first, second] = pages;
  const sender = (page: Page) => page.getByLabel('Sender’s name');
  await sender(first).fill('Theirs');
  await save(first);
  // One's own change is no other's: what is opened beside it goes under the new tag.
  await first.getByRole('tab', { name: 'SMS' }).click();
  await first.getByLabel('Account id').fill('AC1');
  await save(first);
  await first.getByRole('tab', { name: 'All channels' }).click();
  await first.getByLabel('Keep quiet hours').check();
  await save(first);
  await first.getByLabel('Keep quiet hours').uncheck();
  await save(first);

  await sender(second).fill('Mine');
  expect(await press(second, 'Save')).toBe(412);
  await conflict(second).getByText('Nothing was overwritten').waitFor();
  expect(await call('GET', '/channels')).toMatchObject({ email: { fromName: 'Theirs' } });
  await expectValue(sender(second), 'Mine');
  await conflict(second).getByRole('button', { name: 'Load theirs, and drop mine' }).click();
  await expectValue(sender(second), 'Theirs');
  await sender(second).fill('After theirs');
  await save(second);
  expect(await call('GET', '/channels')).toMatchObject({ email: { fromName: 'After theirs' } });
  expect(await call('GET', '/channels')).toMatchObject({ sms: { accountId: 'AC1' } });
  await call('PUT', '/channels', { emailFromName: before.email.fromName, smsAccountId: null });
  await done(pages);
});
