import type { Page, Request } from 'playwright-core';
import { expect, test } from 'vitest';
import {
  call,
  eventually,
  expectAccessible,
  expectCount,
  expectValue,
  open,
  picture,
  press,
  product,
  settled,
  unique,
} from './browser';
import { conflict, withTwoPeople } from './two-people';

const people = withTwoPeople();
const { both } = people;

interface Id {
  id: string;
}

const event = (page: Page) => page.getByLabel(/^Event( \*)?$/);

test('two people edit the same automation: the second is told, and nothing is overwritten', async () => {
  const { id } = await call<Id>('POST', '/automations', {
    name: unique('Shared'),
    triggerType: 'EVENT',
    triggerEvent: 'x',
    steps: [{ type: 'EXIT' }],
  });
  const stored = () => call('GET', `/automations/${id}`);
  const [first, second] = await both(`automations/${id}`);
  await event(first).fill('theirs');
  expect(await press(first, 'Save')).toBe(200);
  await event(second).fill('mine');
  expect(await press(second, 'Save')).toBe(412);

  // In the API's own words; what was typed stays, and is still asked about.
  await conflict(second).getByText('this automation has been changed since it was read').waitFor();
  await conflict(second).getByText('Nothing was overwritten').waitFor();
  await picture(second, 'act-conflict');
  await expectAccessible(second, 'conflict');
  await expectValue(event(second), 'mine');
  expect(await stored()).toMatchObject({ triggerEvent: 'theirs' });
  expect(await press(second, 'Save'), 'saved once more').toBe(412);

  // The newest is looked at beside one's own, or in its place.
  const [beside] = await Promise.all([
    second.waitForEvent('popup'),
    conflict(second).getByRole('link', { name: 'See theirs in a new tab' }).click(),
  ]);
  await settled(beside);
  await expectValue(event(beside), 'theirs');
  await beside.close();
  await expectValue(event(second), 'mine');
  await conflict(second).getByRole('button', { name: 'Load theirs, and drop mine' }).click();
  await expectValue(event(second), 'theirs');
  await expectCount(conflict(second), 0);
  await event(second).fill('after theirs');
  expect(await press(second, 'Save')).toBe(200);
  expect(await stored()).toMatchObject({ triggerEvent: 'after theirs' });

  // Now the first is the second; and writes over it on purpose.
  await event(first).fill('on purpose');
  expect(await press(first, 'Save')).toBe(412);
  expect(await press(first, 'Save mine over theirs')).toBe(200);
  expect(await stored()).toMatchObject({ triggerEvent: 'on purpose' });
  await expectCount(conflict(first), 0);
  await event(first).fill('and on');
  expect(await press(first, 'Save')).toBe(200);

  // What the second sees is no longer what there is: it is neither started nor deleted by that.
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
  people.expectNoComplaints();
});

test.each([
  ['template', 'templates', { channel: 'EMAIL', subject: 's', body: 'b' }],
  ['segment', 'segments', { rules: [] }],
])('two people edit the same %s', async (_, place, rest) => {
  const { id } = await call<Id>('POST', `/${place}`, { name: unique('Shared'), ...rest });
  const [first, second] = await both(`${place}/${id}`);
  await first.getByLabel('Name').fill(unique('Theirs'));
  expect(await press(first, 'Save')).toBe(200);
  const mine = unique('Mine');
  await second.getByLabel('Name').fill(mine);
  expect(await press(second, 'Save')).toBe(412);
  await conflict(second).waitFor();
  expect(await call('GET', `/${place}/${id}`)).toMatchObject({ name: await first.getByLabel('Name').inputValue() });
  await expectValue(second.getByLabel('Name'), mine);
  expect(await press(second, 'Save mine over theirs')).toBe(200);
  expect(await call('GET', `/${place}/${id}`)).toMatchObject({ name: mine });
});

test('two people edit the settings of a project', async () => {
  const [first, second] = await both('settings');
  await first.getByLabel('Timezone').fill('Europe/Paris');
  expect(await press(first, 'Save')).toBe(200);
  await second.getByLabel('Retention in days').fill('100');
  expect(await press(second, 'Save')).toBe(412);
  await conflict(second).waitFor();
  // Only what was changed here goes over theirs.
  expect(await press(second, 'Save mine over theirs')).toBe(200);
  await expectValue(second.getByLabel('Timezone'), 'Europe/Paris');
  await second.getByLabel('Timezone').fill('UTC');
  expect(await press(second, 'Save')).toBe(200);
});

test('a campaign that was changed is neither saved over nor sent as it was', async () => {
  const name = unique('Shared');
  const { id: templateId } = await call<Id>('POST', '/templates', { name, channel: 'EMAIL', subject: 's', body: 'b' });
  const { id: segmentId } = await call<Id>('POST', '/segments', {
    name,
    rules: [{ field: 'properties.plan', operator: 'eq', value: name }],
  });
  const { id } = await call<Id>('POST', '/campaigns', { name, channel: 'EMAIL', segmentId, templateId });
  const [first, second] = await both(`campaigns/${id}`);
  for (const page of [first, second]) await page.getByRole('button', { name: 'Change it' }).click();
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

  // What stands on the screen of the first is not what there is any more.
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

/** Whether a request makes something at a place of the API, and not a preview of it or something elsewhere. */
const isMakingAt = (place: string) => (request: Request) =>
  request.method() === 'POST' && new URL(request.url()).pathname === `/api/v1/${place}`;

/** Holds the requests that make something at a place, until they are let go. */
async function holding(page: Page, place: string): Promise<() => void> {
  let letGo = () => {};
  const held = new Promise<void>((done) => {
    letGo = done;
  });
  await page.route(`**/api/v1/${place}`, async (route) => {
    if (isMakingAt(place)(route.request())) await held;
    await route.continue();
  });
  return letGo;
}

test.each([
  ['segments', 'Description', 'description', async () => {}],
  ['templates', 'Subject', 'subject', (page: Page) => page.getByRole('textbox', { name: 'Body' }).fill('b')],
  ['automations', /^Event( \*)?$/, 'triggerEvent', (page: Page) => event(page).fill('x')],
] as const)(
  'what is typed while one of the %s is being made is still there when it is',
  async (place, label, field, fill) => {
    const page = await people.first.newPage();
    const letGo = await holding(page, place);
    await open(page, `${place}/new`);
    await page.getByLabel('Name').fill(unique('New'));
    await fill(page);
    await Promise.all([
      page.waitForRequest(isMakingAt(place)),
      page.getByRole('button', { name: 'Save', exact: true }).click(),
    ]);
    await page.getByLabel(label).fill('typed meanwhile');
    letGo();
    await page.waitForURL(new RegExp(`${place}/[0-9a-f-]{36}$`));
    await expectValue(page.getByLabel(label), 'typed meanwhile');
    await eventually(async () =>
      expect(await page.evaluate(() => document.activeElement?.tagName)).toMatch(/^(INPUT|TEXTAREA)$/),
    );
    expect(await press(page, 'Save')).toBe(200);
    const id = page.url().split('/').at(-1);
    expect(await call('GET', `/${place}/${id}`)).toMatchObject({ [field]: 'typed meanwhile' });
    await page.close();
  },
);

test('what a project is given goes to it, also when another comes on the screen meanwhile', async () => {
  const page = await people.first.newPage();
  await page.goto(`${product.origin}/new-project`);
  await page.getByLabel('Name').fill(unique('Another shop'));
  await page.getByRole('button', { name: 'Create the project' }).click();
  const letGo = await holding(page, 'api-keys');
  const made = async (request: Request) => (await request.allHeaders())['x-project-id'];
  const [first] = await Promise.all([
    page.waitForRequest(isMakingAt('api-keys')),
    page.getByRole('button', { name: 'Make its keys' }).click(),
  ]);
  await page.getByRole('link', { name: 'To the project' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.getByLabel('Project', { exact: true }).selectOption(product.projectId);
  await page.waitForURL(new RegExp(product.projectId));
  const next = page.waitForRequest((request) => isMakingAt('api-keys')(request) && request !== first);
  letGo();
  const project = await made(first);
  expect(project).not.toBe(product.projectId);
  expect(await made(await next)).toBe(project);
  await page.close();
});
