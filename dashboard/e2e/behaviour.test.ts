import type { BrowserContext, Page } from 'playwright-core';
import { afterEach, expect, test } from 'vitest';
import {
  adminContext,
  at,
  call,
  eventually,
  expectAccessible,
  expectCount,
  expectDisabled,
  expectNoBrowserErrors,
  expectValue,
  invitationToken,
  newContext,
  open,
  screenshot,
  product,
  settled,
  unique,
  withBrowser,
} from './browser';

withBrowser();
const contexts: BrowserContext[] = [];

async function admin(): Promise<{ context: BrowserContext; page: Page }> {
  const context = await adminContext();
  contexts.push(context);
  return { context, page: await context.newPage() };
}

afterEach(async () => {
  for (const context of contexts.splice(0)) await context.close();
});

interface Id {
  id: string;
}

test('sign-in redirects to the requested screen', async () => {
  const context = await newContext();
  contexts.push(context);
  const page = await context.newPage();
  await page.goto(at('users?search=ann'));
  await page.waitForURL(/\/sign-in\?next=/);
  await page.getByLabel('Email').fill(product.email);
  await page.locator('input[name="password"]').fill('wrong password');
  await page.getByRole('button', { name: 'Sign in' }).click();
  const alertText = await page.getByRole('alert').innerText();
  expect(alertText).toContain('wrong email address or password');
  await page.locator('input[name="password"]').fill(product.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Users' }).waitFor();
  await expectValue(page.getByLabel('Email, name or ID'), 'ann');
  // The session is a cookie that scripts cannot read, and nothing else is stored.
  const storage = await page.evaluate(() => ({
    cookie: document.cookie,
    local: JSON.stringify(localStorage),
    session: JSON.stringify(sessionStorage),
  }));
  expect(storage.cookie).toBe('');
  for (const stored of [storage.local, storage.session])
    expect(stored).not.toMatch(/csrf|token|[sp]k_live|[0-9a-f]{64}/i);
});

test('session that ends during an edit loses no input', async () => {
  const { context, page } = await admin();
  const name = unique('Kept');
  await open(page, 'templates/new');
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Subject').fill('My subject');
  await page.getByRole('textbox', { name: 'Body' }).fill('<p>For an hour.</p>');
  await context.clearCookies();
  await page.getByRole('button', { name: 'Save' }).click();
  const dialog = page.getByRole('dialog', { name: 'Your session has ended' });
  await dialog.waitFor();
  await screenshot(page, 'manners-session-ended');
  await expectAccessible(page, 'session ended');
  await dialog.locator('input[name="password"]').fill(product.password);
  await dialog.getByRole('button', { name: 'Sign in' }).click();
  // The save request is repeated automatically.
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await expectValue(page.getByLabel('Subject'), 'My subject');
  const { templates } = await call<{ templates: Array<{ name: string; body: string }> }>('GET', '/templates');
  expect(templates.filter((template) => template.name === name)).toEqual([
    expect.objectContaining({ body: '<p>For an hour.</p>' }),
  ]);
  expectNoBrowserErrors(context);
});

test('leaving unsaved changes requires confirmation', async () => {
  const { page } = await admin();
  await open(page, 'segments/new');
  await page.getByLabel('Name').fill('Not yet');
  await page.getByRole('link', { name: 'Templates' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Keep editing' }).click();
  await expectValue(page.getByLabel('Name'), 'Not yet');
  await page.getByRole('link', { name: 'Templates' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Leave without saving' }).click();
  await page.getByRole('heading', { level: 1, name: 'Templates' }).waitFor();

  // Switching the project leaves the screen; the skip link does not.
  await open(page, 'segments/new');
  await page.getByLabel('Name').fill('Not yet');
  await page.getByLabel('Project', { exact: true }).selectOption({ label: 'New project…' });
  await page.getByRole('dialog').getByRole('button', { name: 'Keep editing' }).click();
  await page.getByRole('link', { name: 'Skip to content' }).focus();
  await page.keyboard.press('Enter');
  await eventually(async () => expect(await page.evaluate(() => document.activeElement?.id)).toBe('content'));
  await expectCount(page.getByRole('dialog'), 0);
  await expectValue(page.getByLabel('Name'), 'Not yet');
});

test('closing a modal form or switching a tab with unsaved changes requires confirmation', async () => {
  const { page } = await admin();
  await open(page, 'news');
  await page.getByRole('button', { name: 'New post' }).click();
  await page.getByLabel('Title').fill('Not yet');
  await page.keyboard.press('Escape');
  const question = page.getByRole('dialog', { name: 'Leave without saving?' });
  await question.getByRole('button', { name: 'Keep editing' }).click();
  await expectValue(page.getByLabel('Title'), 'Not yet');
  await page.keyboard.press('Escape');
  await question.getByRole('button', { name: 'Leave without saving' }).click();
  await expectCount(page.getByRole('dialog'), 0);

  await open(page, 'channels');
  await page.getByLabel('From name').fill('Not yet');
  await page.getByRole('tab', { name: 'SMS' }).click();
  await question.getByRole('button', { name: 'Keep editing' }).click();
  await expectValue(page.getByLabel('From name'), 'Not yet');
  await page.getByRole('tab', { name: 'SMS' }).click();
  await question.getByRole('button', { name: 'Leave without saving' }).click();
  await page.getByLabel('Account ID').waitFor();
});

test('new key stays visible after the first event and disappears with its project', async () => {
  const { page } = await admin();
  const names = [unique('One'), unique('Two')];
  for (const name of names) {
    await page.goto(`${product.origin}/new-project`);
    await page.getByLabel('Name').fill(name);
    await page.getByRole('button', { name: 'Create project' }).click();
    await page.getByRole('link', { name: 'Go to project' }).click();
    await page.getByRole('button', { name: 'Create a public key and show the request' }).waitFor();
  }
  await page.getByRole('button', { name: 'Create a public key and show the request' }).click();
  const shown = page.getByText(/pk_live_/).first();
  const key = /pk_live_\w+/.exec(await shown.innerText())?.[0] ?? '';
  const sent = await fetch(`${product.origin}/api/v1/events`, {
    method: 'POST',
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    body: JSON.stringify({ event: 'first_light', user_id: 'ada' }),
  });
  expect(sent.status).toBe(202);
  await page.getByRole('heading', { name: 'You’re on your way' }).waitFor({ timeout: 45_000 });
  expect(await shown.innerText()).toContain(key);
  await page.getByLabel('Project', { exact: true }).selectOption({ label: names[0] ?? '' });
  await page.getByRole('heading', { name: 'Get started' }).waitFor();
  expect(await page.content()).not.toContain(key);
});

test('API errors are shown with their fields', async () => {
  const { page } = await admin();
  await open(page, 'templates/new');
  await page.getByLabel('Name').fill(unique('Broken'));
  await page.getByRole('textbox', { name: 'Body' }).fill('<p>{{ name </p>');
  await page.getByRole('button', { name: 'Save' }).click();
  const alert = page.getByRole('alert').first();
  await alert.waitFor();
  const refused = await fetch(`${product.origin}/api/v1/templates`, {
    method: 'POST',
    headers: { 'x-api-key': product.secretKey, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'Broken', channel: 'EMAIL', body: '<p>{{ name </p>' }),
  });
  const { details } = (await refused.json()) as { details: Array<{ field: string; message: string }> };
  const alertText = await alert.innerText();
  // The field is named by its label.
  for (const { field, message } of details)
    expect(alertText).toContain(`${field === 'body' ? 'Body' : field} ${message}`);
});

test('failed request is reported and can be retried', async () => {
  const { page } = await admin();
  let fails = true;
  await page.route('**/api/v1/users?*', (route) =>
    fails
      ? route.fulfill({
          status: 503,
          headers: { 'retry-after': '1' },
          json: { error: 'Service Unavailable', message: 'the database is unavailable', status: 503, requestId: 'r' },
        })
      : route.continue(),
  );
  await page.goto(at('users'));
  await page.getByRole('alert').getByText('the database is unavailable').waitFor();
  fails = false;
  await page.getByRole('button', { name: 'Try again' }).click();
  await expectCount(page.getByRole('alert'), 0);
});

test('template cannot escape its preview frame', async () => {
  const { page } = await admin();
  const evil =
    '<h1 id="seen">Evil</h1><script>parent.document.title = "broken out"; document.title = "ran"</script><img src="x" onerror="document.title = \'ran\'"><style>h1 { color: rgb(1, 2, 3) }</style><a href="https://example.com/">away</a><meta http-equiv="refresh" content="0;url=https://example.com/">';
  const { id } = await call<Id>('POST', '/templates', {
    name: unique('Evil'),
    channel: 'EMAIL',
    subject: 'Hi',
    body: evil,
  });
  await open(page, `templates/${id}`);
  const frame = page.frameLocator('iframe');
  await frame.locator('#seen').waitFor();
  expect(await frame.locator('#seen').evaluate((element) => getComputedStyle(element).color)).toBe('rgb(1, 2, 3)');
  expect(await page.title()).not.toContain('broken');
  const inside = page.frames().find((each) => each.url().endsWith('/preview.html'));
  expect(
    await inside?.evaluate(() => ({ title: document.title, origin: self.origin, scripts: document.scripts.length })),
  ).toMatchObject({ origin: 'null', scripts: 0 });
  // Wait until the image has failed to load and the click has been handled.
  await inside?.waitForFunction(() => document.images[0]?.complete === true);
  expect(await inside?.evaluate(() => document.title)).not.toBe('ran');
  await inside?.evaluate(() =>
    addEventListener('click', (click) =>
      setTimeout(() => (document.body.dataset.prevented = String(click.defaultPrevented))),
    ),
  );
  await frame.getByText('away').click();
  await frame.locator('body[data-prevented="true"]').waitFor();
  expect(page.frames().some((each) => each.url().includes('example.com'))).toBe(false);
  await screenshot(page, 'manners-preview');
});

test('invited member can use only what the role permits', async () => {
  const { page } = await admin();
  const email = `${unique('member').replace(' ', '-')}@example.com`;
  await open(page, 'team');
  await page.getByLabel('Email').fill(email);
  await page.getByRole('button', { name: 'Invite', exact: true }).click();
  const token = await invitationToken(email);
  await screenshot(page, 'manners-invite');

  const memberContext = await newContext();
  contexts.push(memberContext);
  const member = await memberContext.newPage();
  await member.goto(`${product.origin}/accept-invite?token=${token}`);
  await member.getByLabel('Your name').fill('Mem');
  await member.locator('input[name="password"]').fill('a long password');
  await member.getByRole('button', { name: 'Join' }).click();
  await member.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  for (const hidden of ['API keys', 'Webhooks', 'Audit log'])
    await expectCount(member.getByRole('link', { name: hidden, exact: true }), 0);
  await open(member, 'channels');
  await member.getByText('Only an admin').waitFor();
  await expectCount(member.getByRole('button', { name: 'Save' }), 0);
  await open(member, 'settings');
  await expectDisabled(member.getByLabel('API rate limit (requests per second)'));
  // The API refuses a URL that a member opens directly.
  await member.goto(at('api-keys'));
  await member.getByRole('alert').getByText('Permission denied').waitFor();
  await open(member, 'templates/new');
  await member.getByLabel('Name').fill(unique('Theirs'));
  await member.getByLabel('Subject').fill('Hi');
  await member.getByRole('textbox', { name: 'Body' }).fill('Hi');
  await member.getByRole('button', { name: 'Save' }).click();
  await member.getByText('Saved.').waitFor();
});

test('API key is shown once, works, and is rejected after it is revoked', async () => {
  const { page } = await admin();
  const name = unique('Shop');
  await open(page, 'api-keys');
  await page.getByRole('button', { name: 'Create API key' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill(name);
  await page.getByRole('dialog').getByLabel('Type').selectOption('secret');
  await page.getByRole('dialog').getByRole('button', { name: 'Create API key' }).click();
  const key = await page.getByTestId('secret').innerText();
  expect(key).toMatch(/^sk_live_[A-Za-z0-9]{32}$/);
  const status = async () =>
    (await fetch(`${product.origin}/api/v1/segments`, { headers: { 'x-api-key': key } })).status;
  expect(await status()).toBe(200);
  await page.getByRole('button', { name: 'Done' }).click();
  await settled(page);
  expect(await page.content()).not.toContain(key);
  await page.getByRole('row', { name }).getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('dialog').getByText(name).waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await eventually(async () => expect(await status()).toBe(401));
});

test('test mail is sent through the channel, and secrets are never returned', async () => {
  const { page } = await admin();
  await open(page, 'channels');
  await page.getByLabel('To', { exact: true }).fill('test@example.com');
  await page.getByRole('button', { name: 'Send test' }).click();
  await page.getByText('accepted by the provider').waitFor({ timeout: 30_000 });
  await screenshot(page, 'manners-channel-test');
  await page.getByLabel('Password', { exact: true }).fill('stored-password');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Channel saved.').waitFor();
  await page.reload();
  await settled(page);
  const response = await page.evaluate(
    async (project) => (await fetch('/api/v1/channels', { headers: { 'x-project-id': project } })).text(),
    product.projectId,
  );
  expect(response).toContain('"email"');
  expect(response).not.toContain('stored-password');
  await expectValue(page.getByLabel('Password', { exact: true }), '');
  await page.getByRole('button', { name: /^Remove stored value: Password$/ }).click();
  await page
    .getByRole('dialog')
    .getByRole('button', { name: /^Remove stored value/ })
    .click();
  await expectCount(page.getByRole('dialog'), 0);
});
