import type { Page, Request } from 'playwright-core';
import { expect, test } from 'vitest';
import {
  at,
  call,
  eventually,
  expectDisabled,
  expectNoBrowserErrors,
  expectValue,
  open,
  settled,
  unique,
  withAdmin,
} from './browser';

const admin = withAdmin();

interface Id {
  id: string;
}

/** Delays the requests of a method to a URL until the returned function is called. */
async function delayRequests(page: Page, url: string, method: string): Promise<() => void> {
  let release = () => {};
  const released = new Promise<void>((done) => {
    release = done;
  });
  await page.route(url, async (route) => {
    if (route.request().method() === method) await released;
    await route.continue();
  });
  return release;
}

const hasMethod = (method: string) => (request: Request) => request.method() === method;

test('deleting a record does not navigate after its screen has been left', async () => {
  const { page, context } = admin;
  const name = unique('Deleted');
  const { id } = await call<Id>('POST', '/templates', { name, channel: 'EMAIL', subject: 's', body: 'b' });
  await open(page, 'news');
  await page.getByRole('link', { name: 'Templates' }).click();
  await page.getByRole('link', { name }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
  const release = await delayRequests(page, `**/api/v1/templates/${id}`, 'DELETE');
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await Promise.all([
    page.waitForRequest(hasMethod('DELETE')),
    page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click(),
  ]);
  await page.goBack();
  await page.goBack();
  await page.getByRole('heading', { level: 1, name: 'News feed' }).waitFor();
  release();
  // The notification still appears; a navigation would have happened by then.
  await page.getByText('Template deleted.').waitFor();
  expect(page.url()).toBe(at('news'));
  await page.getByRole('heading', { level: 1, name: 'News feed' }).waitFor();
  await page.unrouteAll({ behavior: 'wait' });
  expectNoBrowserErrors(context);
});

test('field of a rule keeps the focus while its segment is saved', async () => {
  const { page, context } = admin;
  const name = unique('Kept');
  const { id } = await call<Id>('POST', '/segments', {
    name,
    rules: [
      { field: 'properties.plan', operator: 'eq', value: 'pro' },
      { any: [{ field: 'properties.country', operator: 'eq', value: 'DE' }] },
    ],
  });
  await open(page, `segments/${id}`);
  const release = await delayRequests(page, `**/api/v1/segments/${id}`, 'PUT');
  const [plan, country] = [page.getByLabel('Value').first(), page.getByLabel('Value').last()];
  await plan.fill('free');
  await Promise.all([
    page.waitForRequest(hasMethod('PUT')),
    page.getByRole('button', { name: 'Save', exact: true }).click(),
  ]);
  await country.focus();
  const field = await country.elementHandle();
  release();
  await page.getByText('Saved.').waitFor();
  await expectDisabled(page.getByRole('button', { name: 'Save', exact: true }));
  expect(await field?.evaluate((element) => element === document.activeElement && element.isConnected)).toBe(true);
  await page.keyboard.press('End');
  await page.keyboard.type('E');
  await expectValue(country, 'DEE');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await eventually(async () =>
    expect(await call('GET', `/segments/${id}`)).toMatchObject({
      rules: [{ value: 'free' }, { any: [{ value: 'DEE' }] }],
    }),
  );
  await settled(page);
  await page.unrouteAll({ behavior: 'wait' });
  expectNoBrowserErrors(context);
});
