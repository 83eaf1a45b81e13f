import { expect, test } from 'vitest';
import { call, eventually, expectNoComplaints, expectValue, mails, open, picture, unique, withAdmin } from './browser';

const admin = withAdmin();

test('two templates are tried against each other, and each person gets one of them', async () => {
  const { context, page } = admin;
  const name = unique('Trial');
  const people = Array.from({ length: 12 }, (_, index) => `${name.replace(' ', '-').toLowerCase()}-${index}`);
  for (const who of people)
    await call('POST', '/users/identify', { user_id: who, properties: { email: `${who}@example.com`, plan: name } });
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
    expect(await call('GET', `/segments/${id}`)).toMatchObject({ userCount: people.length }),
  );

  await open(page, 'campaigns/new');
  await page.getByLabel('Name').fill(name);
  await page.getByLabel(/^Segment( \*)?$/).selectOption({ label: name });
  await page.getByRole('button', { name: 'Next' }).click();
  await page.getByLabel('Try variants against each other').check();
  for (const [number, letter, percent] of [
    [1, 'Warm', '50'],
    [2, 'Cool', '50'],
  ] as const) {
    const variant = page.getByRole('group', { name: `Variant ${number}` });
    await variant.getByLabel('Name').fill(letter);
    await variant.getByLabel('Template').selectOption({ label: `${name} ${letter}` });
    await expectValue(variant.getByLabel('Percent'), percent);
  }
  await picture(page, 'act-trial-variants');
  for (let step = 0; step < 2; step++) await page.getByRole('button', { name: 'Next' }).click();
  await page.getByText(`Warm (${name} Warm, 50 %), Cool (${name} Cool, 50 %)`).waitFor();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Send now' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Send now' }).click();
  await page.getByText('Completed').waitFor({ timeout: 45_000 });
  await eventually(async () =>
    expect(await page.getByTestId('progress').innerText()).toBe(`${people.length} of ${people.length} settled`),
  );

  // As the report counts them, so they came.
  const table = page.getByRole('region', { name: 'By variant' });
  const counted = async (letter: string) =>
    Number(await table.getByRole('row', { name: letter }).getByRole('cell').nth(1).innerText());
  const came = (letter: string) => mails(`Subject: ${letter} ${name}`).length;
  await eventually(async () =>
    expect([await counted('Warm'), await counted('Cool')]).toEqual([came('Warm'), came('Cool')]),
  );
  expect(came('Warm') + came('Cool')).toBe(people.length);
  for (const who of people) expect(mails(`${who}@example.com`)).toHaveLength(1);
  await picture(page, 'act-trial');
  expectNoComplaints(context);
});
