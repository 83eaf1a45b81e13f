import type { Page, Request } from 'playwright-core';
import { expect, test } from 'vitest';
import {
  at,
  call,
  eventually,
  expectDisabled,
  expectNoComplaints,
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

/** Holds the requests of a method to an address, until they are let go. */
async function holding(page: Page, address: string, method: string): Promise<() => void> {
  let letGo = () => {};
  const held = new Promise<void>((done) => {
    letGo = done;
  });
  await page.route(address, async (route) => {
    if (route.request().method() === method) await held;
    await route.continue();
  });
  return letGo;
}

const isMade = (method: string) => (request: Request) => request.method() === method;

test('whoever has left a screen is not led away by what they deleted on it', async () => {
  const { page, context } = admin;
  const name = unique('Going');
  const { id } = await call<Id>('POST', '/templates', { name, channel: 'EMAIL', subject: 's', body: 'b' });
  await open(page, 'news');
  await page.getByRole('link', { name: 'Templates' }).click();
  await page.getByRole('link', { name }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
  const letGo = await holding(page, `**/api/v1/templates/${id}`, 'DELETE');
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await Promise.all([
    page.waitForRequest(isMade('DELETE')),
    page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click(),
  ]);
  await page.goBack();
  await page.goBack();
  await page.getByRole('heading', { level: 1, name: 'News feed' }).waitFor();
  letGo();
  // It is told all the same, and by then whoever would be led away has been.
  await page.getByText('The template is deleted.').waitFor();
  expect(page.url()).toBe(at('news'));
  await page.getByRole('heading', { level: 1, name: 'News feed' }).waitFor();
  await page.unrouteAll({ behavior: 'wait' });
  expectNoComplaints(context);
});

test('a rule keeps the focus while what it stands in is saved', async () => {
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
  const letGo = await holding(page, `**/api/v1/segments/${id}`, 'PUT');
  const [plan, country] = [page.getByLabel('Value').first(), page.getByLabel('Value').last()];
  await plan.fill('free');
  await Promise.all([
    page.waitForRequest(isMade('PUT')),
    page.getByRole('button', { name: 'Save', exact: true }).click(),
  ]);
  await country.focus();
  const field = await country.elementHandle();
  letGo();
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
  expectNoComplaints(context);
});
