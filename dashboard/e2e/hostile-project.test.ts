import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  adminContext,
  call,
  eventually,
  expectNoBrowserErrors,
  invitationToken,
  newContext,
  product,
  settled,
  signIn,
  unique,
  withBrowser,
} from './browser';
import { MarkupWatch, hostile, short } from './hostile';

// Markup in texts that only signed-in accounts write, and in responses of other systems. The project has its own name with
// markup. Imports appear on no screen.

withBrowser();
const contexts: BrowserContext[] = [];
const PASSWORD = 'a long password';
/** An address with as much markup as addresses allow. */
const EMAIL = `${unique('m').replace(' ', '')}'{{7*7}}&lt=\`b@example.com`;
let admin: Page;
let system: Server;
const created = {} as { project: string; endpoint: string; campaign: string };

interface Id {
  id: string;
}

/** Calls the API as the account that is signed in on a page. */
async function as<T>(page: Page, method: string, path: string, body?: object): Promise<T> {
  const answer = await page.evaluate(
    async ({ method, path, body, project }) => {
      const { csrfToken } = (await (await fetch('/api/v1/auth/session')).json()) as { csrfToken: string };
      const headers = {
        'x-csrf-token': csrfToken,
        'content-type': 'application/json',
        ...(project && { 'x-project-id': project }),
      };
      const answer = await fetch(`/api/v1${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
      return { ok: answer.ok, text: `${answer.status} ${await answer.text()}` };
    },
    { method, path, body, project: created.project },
  );
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.text}`);
  return JSON.parse(answer.text.slice(4)) as T;
}

beforeAll(async () => {
  // A system that rejects every delivery with markup in its response.
  system = createServer((_, answer) => answer.writeHead(500, { 'content-type': 'text/html' }).end(hostile('response')));
  await new Promise<void>((listening) => system.listen(0, '127.0.0.1', listening));
  const context = await adminContext();
  contexts.push(context);
  admin = await context.newPage();
  await admin.goto(product.origin);
  await settled(admin);
  created.project = (await as<Id>(admin, 'POST', '/projects', { name: hostile('project') })).id;
  const { key } = await as<{ key: string }>(admin, 'POST', '/api-keys', { name: hostile('key-name'), type: 'secret' });
  await as(admin, 'POST', '/team/invites', {
    email: `${unique('not-yet').replace(' ', '')}'{{7*7}}&lt=\`b@example.com`,
    role: 'ADMIN',
  });
  await as(admin, 'POST', '/team/invites', { email: EMAIL, role: 'ADMIN' });
  const joined = {
    token: await invitationToken(EMAIL.slice(0, EMAIL.indexOf("'"))),
    name: hostile('member'),
    password: PASSWORD,
  };
  await call('POST', '/auth/invites/accept', joined, key);

  const { port } = system.address() as AddressInfo;
  const endpoint = { url: `http://127.0.0.1:${port}/hook`, description: hostile('hook'), events: ['*'] };
  created.endpoint = (await as<Id>(admin, 'POST', '/webhook-endpoints', endpoint)).id;

  const write = <T>(method: string, path: string, body?: object): Promise<T> => call<T>(method, path, body, key);
  const rules = [{ field: 'email', operator: 'exists' }];
  const segment = await write<Id>('POST', '/segments', { name: 'All', rules });
  const template = await write<Id>('POST', '/templates', {
    name: 'Offer',
    channel: 'EMAIL',
    subject: 'Hi',
    body: '<p>Hi</p>',
  });
  await write('POST', '/users/identify', {
    user_id: short('recipient'),
    properties: { email: 'recipient@example.com', name: hostile('recipient-name') },
  });
  await eventually(async () =>
    expect((await write<{ userCount: number }>('GET', `/segments/${segment.id}`)).userCount).toBe(1),
  );
  const variants = ['variant', 'other-variant'].map((name) => ({
    name: short(name),
    templateId: template.id,
    weight: 50,
  }));
  const campaign = {
    name: hostile('campaign'),
    channel: 'EMAIL',
    segmentId: segment.id,
    variants,
    goal: { event: short('goal'), within: '7d' },
  };
  created.campaign = (await write<Id>('POST', '/campaigns', campaign)).id;
  await write('POST', `/campaigns/${created.campaign}/send`);
  await eventually(async () =>
    expect((await write<{ total: number }>('GET', `/campaigns/${created.campaign}/report`)).total).toBe(1),
  );
  await as(admin, 'POST', `/webhook-endpoints/${created.endpoint}/test`);
  await eventually(async () => {
    const { deliveries } = await as<{ deliveries: Array<{ attempts: Array<{ response?: string }> }> }>(
      admin,
      'GET',
      `/webhook-endpoints/${created.endpoint}/deliveries`,
    );
    expect(deliveries.some(({ attempts }) => attempts.some(({ response }) => response?.includes('response')))).toBe(
      true,
    );
  });
});

afterAll(async () => {
  for (const context of contexts) await context.close();
  system?.close();
});

const go = async (page: Page, path: string): Promise<void> => {
  await page.goto(`${product.origin}${path}`);
  await settled(page);
};

test('markup from team members and other systems is shown as text on every screen', async () => {
  const watch = new MarkupWatch();
  watch.watchDialogs(admin);
  const screens = [
    'overview',
    'team',
    'api-keys',
    'webhooks',
    `webhooks/${created.endpoint}`,
    'settings',
    'campaigns',
    `campaigns/${created.campaign}`,
    'messages',
    'audit-log',
  ];
  for (const screen of screens) {
    await go(admin, `/p/${created.project}/${screen}`);
    await watch.check(admin, screen);
    if (screen === 'team') expect(await admin.locator('main').innerText()).toContain(EMAIL);
  }
  for (const path of ['/account', '/new-project']) {
    await go(admin, path);
    await watch.check(admin, path);
  }
  watch.expectTexts(['project', 'key-name', 'member', 'hook', 'campaign', 'variant', 'other-variant', 'goal']);
  for (const context of contexts) expectNoBrowserErrors(context);
});

test('markup is shown as text in dialogs and in the details of a delivery', async () => {
  const watch = new MarkupWatch();
  watch.watchDialogs(admin);
  const checkDialog = async (screen: string, button: string, field: string) => {
    await go(admin, `/p/${created.project}/${screen}`);
    // The log is refetched every few seconds.
    await admin.getByRole('button', { name: button, exact: true }).last().click();
    await admin.getByRole('dialog').waitFor();
    await eventually(async () => {
      await watch.check(admin, `${screen}: ${button}`);
      expect([...watch.asText]).toContain(field);
    });
  };
  await checkDialog('api-keys', 'Revoke', 'key-name');
  await checkDialog('settings', 'Delete project', 'project');
  await checkDialog(`webhooks/${created.endpoint}`, 'Edit', 'hook');
  await checkDialog(`webhooks/${created.endpoint}`, 'View', 'response');
  watch.expectTexts(['key-name', 'project', 'hook', 'response']);
  for (const context of contexts) expectNoBrowserErrors(context);
});

test('markup is shown as text to its author', async () => {
  const memberContext = await newContext();
  contexts.push(memberContext);
  const page = await memberContext.newPage();
  const watch = new MarkupWatch();
  watch.watchDialogs(page);
  await signIn(page, EMAIL, PASSWORD);
  await watch.check(page, 'overview');
  for (const path of ['/account', `/p/${created.project}/team`]) {
    await go(page, path);
    await watch.check(page, path);
  }
  watch.expectTexts(['project', 'member']);
  expectNoBrowserErrors(memberContext);
});

test('the test detects text that is rendered as markup', async () => {
  const plain = await newContext();
  contexts.push(plain);
  const page = await plain.newPage();
  await page.evaluate((text) => document.body.insertAdjacentText('beforeend', text), hostile('text'));
  const watch = new MarkupWatch();
  await watch.check(page, 'as a text');
  expect([...watch.asText]).toEqual(['text']);
  await page.evaluate((text) => document.body.insertAdjacentHTML('beforeend', text), hostile('markup'));
  await expect(watch.check(page, 'as markup')).rejects.toThrow('as markup');
});
