import { expect, test } from 'vitest';
import {
  eventually,
  expectAccessible,
  expectCount,
  expectNoComplaints,
  open,
  picture,
  settled,
  withAdmin,
} from './browser';

const admin = withAdmin();

test('an endpoint is made, tried, changed and deleted; its secret is shown once', async () => {
  const { context, page } = admin;
  // Reserved for what never answers: no call leaves this machine.
  const url = `https://hook-${Date.now()}.invalid/rekindle`;
  await open(page, 'webhooks');
  await page.getByRole('button', { name: 'Add an endpoint' }).click();
  const form = page.getByRole('dialog', { name: 'Add an endpoint' });
  await form.getByLabel('Address (https)').fill(url);
  await form.getByLabel('Description').fill('The shop');
  await form.getByRole('button', { name: 'Save' }).click();
  const secret = async () => {
    const shown = await page.getByTestId('secret').innerText();
    await page.getByRole('button', { name: 'I have kept it' }).click();
    return shown;
  };
  const first = await secret();
  expect(first).toMatch(/^whsec_/);
  await page.getByRole('link', { name: url }).click();
  await page.getByRole('heading', { level: 1, name: url }).waitFor();

  await page.getByRole('button', { name: 'Send a test call' }).click();
  await page.getByText('The test call is on its way.').waitFor();
  const calls = page.getByRole('region', { name: 'Calls' });
  await expectCount(calls.getByRole('row'), 2);
  // Once it was tried, the log says why it did not arrive.
  await eventually(async () =>
    expect(Number(await calls.getByRole('row').nth(1).getByRole('cell').nth(3).innerText())).toBeGreaterThan(0),
  );
  await calls.getByRole('button', { name: 'Look' }).click();
  const log = page.getByRole('dialog', { name: 'Call' });
  await log.getByText('What was sent').waitFor();
  expect(await log.innerText()).toContain('"type"');
  await picture(page, 'act-webhook-call');
  await expectAccessible(page, 'webhook call');
  await log.getByRole('button', { name: 'Close' }).click();

  await page.getByRole('button', { name: 'Replace the secret' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Replace the secret' }).click();
  const second = await secret();
  expect(second).toMatch(/^whsec_/);
  expect(second).not.toBe(first);

  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  await page.getByRole('dialog', { name: 'Edit' }).getByLabel('Description').fill('The other shop');
  await page.getByRole('dialog', { name: 'Edit' }).getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  await page.getByRole('link', { name: 'Webhooks', exact: true }).click();
  await page.getByRole('row', { name: url }).getByText('The other shop').waitFor();
  await page.getByRole('link', { name: url }).click();
  await settled(page);
  expect(await page.content()).not.toContain('whsec_');
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByRole('dialog').getByText(url).waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('The endpoint is deleted.').waitFor();
  await expectCount(page.getByRole('row', { name: url }), 0);
  expectNoComplaints(context);
});
