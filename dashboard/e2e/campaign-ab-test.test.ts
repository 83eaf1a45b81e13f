import { expect, test } from 'vitest';
import {
  call,
  eventually,
  expectNoBrowserErrors,
  expectValue,
  mails,
  open,
  screenshot,
  unique,
  withAdmin,
} from './browser';

const admin = withAdmin();

test('A/B test sends each recipient exactly one of two templates', async () => {
  const { context, page } = admin;
  const name = unique('Variants');
  const userIds = Array.from({ length: 12 }, (_, index) => `${name.replace(' ', '-').toLowerCase()}-${index}`);
  for (const userId of userIds)
    await call('POST', '/users/identify', {
      user_id: userId,
      properties: { email: `${userId}@example.com`, plan: name },
    });
  for (const letter of ['Warm', 'Cool'])
    await call('POST', '/templates', {
      name: `${name} ${letter}`,
      channel: 'EMAIL',
      subject: `${letter} ${name}`,
      body: `<p>${letter}.</p>`,
    });
  const { id } = await call<{ id: string }>('POST', '/segments', {
    name,
    rules: [{ field: 'properties.plan', operator: 'eq', value: name }],
  });
  await eventually(async () =>
    expect(await call('GET', `/segments/${id}`)).toMatchObject({ userCount: userIds.length }),
  );

  await open(page, 'campaigns/new');
  await page.getByLabel('Name').fill(name);
  await page.getByLabel(/^Segment( \*)?$/).selectOption({ label: name });
  await page.getByRole('button', { name: 'Next' }).click();
  await page.getByLabel('A/B test').check();
  for (const [number, letter, percent] of [
    [1, 'Warm', '50'],
    [2, 'Cool', '50'],
  ] as const) {
    const variant = page.getByRole('group', { name: `Variant ${number}` });
    await variant.getByLabel('Name').fill(letter);
    await variant.getByLabel('Template').selectOption({ label: `${name} ${letter}` });
    await expectValue(variant.getByLabel('Traffic (%)'), percent);
  }
  await screenshot(page, 'act-trial-variants');
  for (let step = 0; step < 2; step++) await page.getByRole('button', { name: 'Next' }).click();
  await page.getByText(`Warm (${name} Warm, 50%), Cool (${name} Cool, 50%)`).waitFor();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Send now' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Send now' }).click();
  await page.getByText('Completed').waitFor({ timeout: 45_000 });
  await eventually(async () =>
    expect(await page.getByTestId('progress').innerText()).toBe(`${userIds.length} of ${userIds.length} processed`),
  );

  // The report matches the delivered mails.
  const table = page.getByRole('region', { name: 'By variant' });
  const reported = async (letter: string) =>
    Number(await table.getByRole('row', { name: letter }).getByRole('cell').nth(1).innerText());
  const delivered = (letter: string) => mails(`Subject: ${letter} ${name}`).length;
  await eventually(async () =>
    expect([await reported('Warm'), await reported('Cool')]).toEqual([delivered('Warm'), delivered('Cool')]),
  );
  expect(delivered('Warm') + delivered('Cool')).toBe(userIds.length);
  for (const userId of userIds) expect(mails(`${userId}@example.com`)).toHaveLength(1);
  await screenshot(page, 'act-trial');
  expectNoBrowserErrors(context);
});
