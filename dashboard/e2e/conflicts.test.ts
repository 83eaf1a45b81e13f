import type { Page, Request } from 'playwright-core';
import { expect, test } from 'vitest';
import {
  call,
  eventually,
  expectAccessible,
  expectCount,
  expectValue,
  open,
  screenshot,
  press,
  product,
  settled,
  unique,
} from './browser';
import { conflict, withTwoAdmins } from './two-admins';

const admins = withTwoAdmins();
const { openForBoth } = admins;

interface Id {
  id: string;
}

const event = (page: Page) => page.getByLabel(/^Event( \*)?$/);

test('conflicting edits of an automation are detected and nothing is overwritten', async () => {
  const { id } = await call<Id>('POST', '/automations', {
    name: unique('Shared'),
    triggerType: 'EVENT',
    triggerEvent: 'x',
    steps: [{ type: 'EXIT' }],
  });
  const stored = () => call('GET', `/automations/${id}`);
  const [first, second] = await openForBoth(`automations/${id}`);
  await event(first).fill('theirs');
  expect(await press(first, 'Save')).toBe(200);
  await event(second).fill('mine');
  expect(await press(second, 'Save')).toBe(412);

  // The API's message is shown, and the edits are kept.
  await conflict(second).getByText('this automation has been changed since it was read').waitFor();
  await conflict(second).getByText('Nothing was overwritten').waitFor();
  await screenshot(second, 'act-conflict');
  await expectAccessible(second, 'conflict');
  await expectValue(event(second), 'mine');
  expect(await stored()).toMatchObject({ triggerEvent: 'theirs' });
  expect(await press(second, 'Save'), 'second attempt to save').toBe(412);

  // The current version can be opened in a new tab, or loaded instead of the edits.
  const [tab] = await Promise.all([
    second.waitForEvent('popup'),
    conflict(second).getByRole('link', { name: 'View the other version in a new tab' }).click(),
  ]);
  await settled(tab);
  await expectValue(event(tab), 'theirs');
  await tab.close();
  await expectValue(event(second), 'mine');
  await conflict(second).getByRole('button', { name: 'Discard my changes' }).click();
  await expectValue(event(second), 'theirs');
  await expectCount(conflict(second), 0);
  await event(second).fill('after theirs');
  expect(await press(second, 'Save')).toBe(200);
  expect(await stored()).toMatchObject({ triggerEvent: 'after theirs' });

  // Now the first admin has a conflict, and overwrites the other version.
  await event(first).fill('on purpose');
  expect(await press(first, 'Save')).toBe(412);
  expect(await press(first, 'Overwrite')).toBe(200);
  expect(await stored()).toMatchObject({ triggerEvent: 'on purpose' });
  await expectCount(conflict(first), 0);
  await event(first).fill('and on');
  expect(await press(first, 'Save')).toBe(200);

  // The second admin sees an outdated version, which can be neither activated nor deleted.
  expect(await press(second, 'Activate')).toBe(412);
  await second.getByRole('button', { name: 'Delete', exact: true }).click();
  const question = second.getByRole('dialog');
  const [answer] = await Promise.all([
    second.waitForResponse((response) => response.request().method() === 'DELETE'),
    question.getByRole('button', { name: 'Delete' }).click(),
  ]);
  expect(answer.status()).toBe(412);
  await question.getByText('this automation has been changed since it was read').waitFor();
  expect(await stored()).toMatchObject({ triggerEvent: 'and on', active: false });
  admins.expectNoBrowserErrors();
});

test.each([
  ['template', 'templates', { channel: 'EMAIL', subject: 's', body: 'b' }],
  ['segment', 'segments', { rules: [] }],
])('conflicting edits of a %s are detected', async (_, resource, rest) => {
  const { id } = await call<Id>('POST', `/${resource}`, { name: unique('Shared'), ...rest });
  const [first, second] = await openForBoth(`${resource}/${id}`);
  await first.getByLabel('Name').fill(unique('Theirs'));
  expect(await press(first, 'Save')).toBe(200);
  const mine = unique('Mine');
  await second.getByLabel('Name').fill(mine);
  expect(await press(second, 'Save')).toBe(412);
  await conflict(second).waitFor();
  expect(await call('GET', `/${resource}/${id}`)).toMatchObject({ name: await first.getByLabel('Name').inputValue() });
  await expectValue(second.getByLabel('Name'), mine);
  expect(await press(second, 'Overwrite')).toBe(200);
  expect(await call('GET', `/${resource}/${id}`)).toMatchObject({ name: mine });
});

test('conflicting edits of project settings are detected', async () => {
  const [first, second] = await openForBoth('settings');
  await first.getByLabel('Time zone').fill('Europe/Paris');
  expect(await press(first, 'Save')).toBe(200);
  await second.getByLabel('Retention (days)').fill('100');
  expect(await press(second, 'Save')).toBe(412);
  await conflict(second).waitFor();
  // Only the fields changed here are overwritten.
  expect(await press(second, 'Overwrite')).toBe(200);
  await expectValue(second.getByLabel('Time zone'), 'Europe/Paris');
  await second.getByLabel('Time zone').fill('UTC');
  expect(await press(second, 'Save')).toBe(200);
});

test('campaign changed by someone else is neither overwritten nor sent in an outdated version', async () => {
  const name = unique('Shared');
  const { id: templateId } = await call<Id>('POST', '/templates', { name, channel: 'EMAIL', subject: 's', body: 'b' });
  const { id: segmentId } = await call<Id>('POST', '/segments', {
    name,
    rules: [{ field: 'properties.plan', operator: 'eq', value: name }],
  });
  const { id } = await call<Id>('POST', '/campaigns', { name, channel: 'EMAIL', segmentId, templateId });
  const [first, second] = await openForBoth(`campaigns/${id}`);
  for (const page of [first, second]) await page.getByRole('button', { name: 'Edit', exact: true }).click();
  const rename = async (page: Page, to: string) => {
    await page.getByLabel('Name').fill(to);
    for (let step = 0; step < 3; step++) await page.getByRole('button', { name: 'Next', exact: true }).click();
    return press(page, 'Save');
  };
  const theirs = unique('Theirs');
  expect(await rename(first, theirs)).toBe(200);
  expect(await rename(second, unique('Mine'))).toBe(412);
  await conflict(second).getByText('this campaign has been changed since it was read').waitFor();
  expect(await call('GET', `/campaigns/${id}`)).toMatchObject({ name: theirs });

  // The first admin now sees an outdated version.
  await first.getByRole('heading', { level: 1, name: theirs }).waitFor();
  await first.route(`**/api/v1/campaigns/${id}`, (route) =>
    route.request().method() === 'GET' ? route.abort() : route.continue(),
  );
  await call('PUT', `/campaigns/${id}`, { name: unique('Another') });
  await first.getByRole('button', { name: 'Send now' }).click();
  const [sent] = await Promise.all([
    first.waitForResponse((response) => response.url().endsWith('/send')),
    first.getByRole('dialog').getByRole('button', { name: 'Send now' }).click(),
  ]);
  expect(sent.status()).toBe(412);
  expect(await call('GET', `/campaigns/${id}`)).toMatchObject({ status: 'DRAFT' });
});

/** Whether a request creates a resource at exactly this path of the API. */
const isCreate = (resource: string) => (request: Request) =>
  request.method() === 'POST' && new URL(request.url()).pathname === `/api/v1/${resource}`;

/** Delays the requests that create a resource until the returned function is called. */
async function delayCreation(page: Page, resource: string): Promise<() => void> {
  let release = () => {};
  const released = new Promise<void>((done) => {
    release = done;
  });
  await page.route(`**/api/v1/${resource}`, async (route) => {
    if (isCreate(resource)(route.request())) await released;
    await route.continue();
  });
  return release;
}

test.each([
  ['segments', 'Description', 'description', async () => {}],
  ['templates', 'Subject', 'subject', (page: Page) => page.getByRole('textbox', { name: 'Body' }).fill('b')],
  ['automations', /^Event( \*)?$/, 'triggerEvent', (page: Page) => event(page).fill('x')],
] as const)('input typed while a new record of %s is being saved is kept', async (resource, label, field, fill) => {
  const page = await admins.first.newPage();
  const release = await delayCreation(page, resource);
  await open(page, `${resource}/new`);
  await page.getByLabel('Name').fill(unique('New'));
  await fill(page);
  await Promise.all([
    page.waitForRequest(isCreate(resource)),
    page.getByRole('button', { name: 'Save', exact: true }).click(),
  ]);
  await page.getByLabel(label).fill('typed while saving');
  release();
  await page.waitForURL(new RegExp(`${resource}/[0-9a-f-]{36}$`));
  await expectValue(page.getByLabel(label), 'typed while saving');
  await eventually(async () =>
    expect(await page.evaluate(() => document.activeElement?.tagName)).toMatch(/^(INPUT|TEXTAREA)$/),
  );
  expect(await press(page, 'Save')).toBe(200);
  const id = page.url().split('/').at(-1);
  expect(await call('GET', `/${resource}/${id}`)).toMatchObject({ [field]: 'typed while saving' });
  await page.close();
});

test('keys are created in their project even if another project is opened in between', async () => {
  const page = await admins.first.newPage();
  await page.goto(`${product.origin}/new-project`);
  await page.getByLabel('Name').fill(unique('Another shop'));
  await page.getByRole('button', { name: 'Create project' }).click();
  const release = await delayCreation(page, 'api-keys');
  const projectOf = async (request: Request) => (await request.allHeaders())['x-project-id'];
  const [first] = await Promise.all([
    page.waitForRequest(isCreate('api-keys')),
    page.getByRole('button', { name: 'Create API keys' }).click(),
  ]);
  await page.getByRole('link', { name: 'Go to project' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.getByLabel('Project', { exact: true }).selectOption(product.projectId);
  await page.waitForURL(new RegExp(product.projectId));
  const next = page.waitForRequest((request) => isCreate('api-keys')(request) && request !== first);
  release();
  const project = await projectOf(first);
  expect(project).not.toBe(product.projectId);
  expect(await projectOf(await next)).toBe(project);
  await page.close();
});
