import type { BrowserContext, Page } from 'playwright-core';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { REQUESTS, type Example } from '../src/app/requests';
import {
  adminContext,
  call,
  eventually,
  expectAccessible,
  expectCount,
  open,
  product,
  settled,
  unique,
  withBrowser,
} from './browser';

withBrowser();
let context: BrowserContext;
let page: Page;

beforeEach(async () => {
  context = await adminContext();
  page = await context.newPage();
});

afterEach(async () => {
  await context.close();
});

test('registered devices are listed with their users', async () => {
  const userId = unique('dev').replace(' ', '-');
  for (const platform of ['IOS', 'ANDROID'])
    await call(
      'POST',
      '/push-tokens',
      { user_id: userId, platform, token: `${userId}-${platform}` },
      product.publicKey,
    );
  await eventually(async () =>
    expect((await call<{ total: number }>('GET', `/push-tokens/devices?userId=${userId}`)).total).toBe(2),
  );
  await open(page, 'channels');
  await page.getByRole('tab', { name: 'Devices' }).click();
  await page.getByRole('searchbox', { name: 'User ID' }).fill(userId);
  await page.waitForURL(`**/channels?*user=${userId}*`);
  const rows = page.getByRole('row').filter({ hasText: userId });
  await expectCount(rows, 2);
  await page.getByLabel('Platform').selectOption({ label: 'iOS' });
  await expectCount(rows, 1);
  await page.getByRole('link', { name: userId }).click();
  await page.getByRole('heading', { level: 1, name: userId }).waitFor();
});

test('public key is restricted to origins and a rate limit, and both can be changed', async () => {
  const name = unique('Site');
  await open(page, 'api-keys');
  await page.getByRole('button', { name: 'Create API key' }).click();
  const form = page.getByRole('dialog');
  await form.getByLabel('Name').fill(name);
  await form.getByLabel('Allowed origins').fill('https://shop.example.com/path');
  await form.getByLabel('Requests per second').fill('5');
  await form.getByRole('button', { name: 'Create API key' }).click();
  await form.getByText('must be an origin such as').first().waitFor();
  await form.getByLabel('Allowed origins').fill('https://Shop.example.com\nhttps://*.example.org');
  await form.getByRole('button', { name: 'Create API key' }).click();
  await page.getByRole('dialog').getByText('pk_live_').waitFor();
  await page.getByRole('button', { name: 'Done' }).click();
  const row = page.getByRole('row').filter({ hasText: name });
  await row.getByText('https://shop.example.com', { exact: true }).waitFor();
  await row.getByRole('button', { name: `Edit ${name}` }).click();
  await expectAccessible(page, 'a key that is changed');
  await page.getByRole('dialog').getByLabel('Allowed origins').fill('');
  await page.getByRole('dialog').getByLabel('Requests per second').fill('');
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await row.getByText('Any', { exact: true }).waitFor();
});

test('push template has a link that opens on tap', async () => {
  const name = unique('Tap');
  await open(page, 'templates/new');
  await expectCount(page.getByLabel('Link opened on tap'), 0);
  await page.getByLabel('Channel').selectOption({ label: 'Push' });
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Title').fill('Hi');
  await page.getByLabel('Body').fill('There is news.');
  await page.getByLabel('Link opened on tap').fill('javascript:alert(1)');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('alert').getByText('Link opened on tap', { exact: true }).waitFor();
  await page.getByLabel('Link opened on tap').fill('/orders/{{ id }}');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
  const stored = async () =>
    (
      await call<{ templates: Array<{ name: string; url: string | null }> }>('GET', '/templates?channel=PUSH')
    ).templates.find((each) => each.name === name)?.url;
  expect(await stored()).toBe('/orders/{{ id }}');
  await page.getByLabel('Link opened on tap').fill('');
  await page.getByRole('button', { name: 'Save' }).click();
  await eventually(async () => expect(await stored()).toBeNull());
});

test('select offers records beyond the first page', async () => {
  const template = (id: string, name: string) => ({
    id,
    name,
    channel: 'EMAIL',
    subject: '',
    body: '',
    url: null,
    tags: [],
    ai: false,
    version: 1,
    createdAt: '2026-01-01T00:00:00.000Z',
    updatedAt: '2026-01-01T00:00:00.000Z',
  });
  await page.route('**/api/v1/templates?*', (route) => {
    const isSecond = new URL(route.request().url()).searchParams.get('cursor') === 'second';
    return route.fulfill({
      json: {
        templates: isSecond ? [template('b', 'An old one')] : [template('a', 'A new one')],
        nextCursor: isSecond ? null : 'second',
      },
    });
  });
  await open(page, 'automations/new?view=list');
  await page.getByRole('button', { name: 'Add step' }).click();
  const choice = page.getByLabel('Template', { exact: true });
  await choice.selectOption({ label: 'A new one' });
  await page.getByRole('button', { name: 'Show more: Template' }).click();
  await choice.selectOption({ label: 'An old one' });
  await expectCount(page.getByRole('button', { name: 'Show more: Template' }), 0);
});

const EMPTY_LISTS = [
  ['users', REQUESTS.user],
  ['events', REQUESTS.event],
  ['segments', REQUESTS.segment],
  ['templates', REQUESTS.template],
  ['automations', REQUESTS.automation],
  ['campaigns', REQUESTS.campaign],
  ['messages', REQUESTS.message],
  ['news', REQUESTS.news],
  ['webhooks', REQUESTS.event],
  ['suppressions', REQUESTS.suppression],
  ['subscription-groups', REQUESTS.group],
  ['channels?tab=devices', REQUESTS.device],
] as const;

test('empty list shows a sample request that works', async () => {
  const name = unique('Bare');
  await page.goto(`${product.origin}/new-project`);
  await page.getByLabel('Name').fill(name);
  await page.getByRole('button', { name: 'Create project' }).click();
  await page.getByRole('link', { name: 'Go to project' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  const project = page.url().replace(/overview.*$/, '');
  for (const [path, request] of EMPTY_LISTS) {
    await page.goto(project + path);
    await settled(page);
    const code = page.locator('pre');
    await eventually(async () =>
      expect(await code.innerText()).toBe(
        request.code(product.origin, request.key === 'public' ? '$PUBLIC_KEY' : '$SECRET_KEY'),
      ),
    );
    await expectAccessible(page, `empty ${path}`);
    if (request.key === 'secret')
      await expectCount(page.getByRole('main').getByRole('link', { name: 'Create API key' }), 1);
  }
  // A new key is shown on the other screens as well, until the page is reloaded.
  await page.getByRole('button', { name: 'Create a public key and show it here' }).click();
  await eventually(async () => expect(await page.locator('pre').innerText()).toContain('pk_live_'));
  const publicKey = /pk_live_\w+/.exec(await page.locator('pre').innerText())?.[0] ?? '';
  await page.getByRole('link', { name: 'Users' }).click();
  await page.getByRole('heading', { level: 1, name: 'Users' }).waitFor();
  await eventually(async () => expect(await page.locator('pre').innerText()).toContain(publicKey));
  await page.getByRole('link', { name: 'API keys' }).click();
  await page.getByRole('button', { name: 'Create API key' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('Server');
  await page.getByRole('dialog').getByLabel('Type').selectOption('secret');
  await page.getByRole('dialog').getByRole('button', { name: 'Create API key' }).click();
  const secret = await page.getByTestId('secret').innerText();

  const send = async ({ key, code }: Example) => {
    const text = code(product.origin, '');
    const [, path = ''] = /api\/v1([^"]+)"/.exec(text) ?? [];
    await call(
      'POST',
      path,
      JSON.parse(text.slice(text.indexOf("-d '") + 4, -1)) as object,
      key === 'public' ? publicKey : secret,
    );
  };
  for (const [, request] of EMPTY_LISTS) if (request !== REQUESTS.campaign) await send(request);
});
