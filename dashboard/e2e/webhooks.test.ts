import { expect, test } from 'vitest';
import {
  eventually,
  expectAccessible,
  expectCount,
  expectNoBrowserErrors,
  open,
  screenshot,
  settled,
  withAdmin,
} from './browser';

const admin = withAdmin();

test('webhook endpoint is created, tested, edited and deleted, and its secret is shown once', async () => {
  const { context, page } = admin;
  // The `.invalid` domain never resolves, so no request leaves this machine.
  const url = `https://hook-${Date.now()}.invalid/rekindle`;
  await open(page, 'webhooks');
  await page.getByRole('button', { name: 'Add endpoint' }).click();
  const form = page.getByRole('dialog', { name: 'Add endpoint' });
  await form.getByLabel('URL (https)').fill(url);
  await form.getByLabel('Description').fill('The shop');
  await form.getByRole('button', { name: 'Save' }).click();
  const secret = async () => {
    const shown = await page.getByTestId('secret').innerText();
    await page.getByRole('button', { name: 'Done' }).click();
    return shown;
  };
  const first = await secret();
  expect(first).toMatch(/^whsec_/);
  await page.getByRole('link', { name: url }).click();
  await page.getByRole('heading', { level: 1, name: url }).waitFor();

  await page.getByRole('button', { name: 'Send test event' }).click();
  await page.getByText('Test event queued.').waitFor();
  const deliveries = page.getByRole('region', { name: 'Deliveries' });
  await expectCount(deliveries.getByRole('row'), 2);
  await deliveries.getByText('webhook.test', { exact: true }).waitFor();
  // After the first attempt, the log shows why the delivery failed.
  await eventually(async () =>
    expect(Number(await deliveries.getByRole('row').nth(1).getByRole('cell').nth(3).innerText())).toBeGreaterThan(0),
  );
  await deliveries.getByRole('button', { name: 'View' }).click();
  const log = page.getByRole('dialog', { name: 'Delivery' });
  await log.getByText('Payload').waitFor();
  expect(await log.innerText()).toContain('"type"');
  await screenshot(page, 'act-webhook-call');
  await expectAccessible(page, 'webhook delivery');
  await log.getByRole('button', { name: 'Close' }).click();

  await page.getByRole('button', { name: 'Rotate secret' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Rotate secret' }).click();
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
  await page.getByText('Endpoint deleted.').waitFor();
  await expectCount(page.getByRole('row', { name: url }), 0);
  expectNoBrowserErrors(context);
});
