import { type BrowserContext, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { adminContext, call, eventually, expectNoComplaints, mails, open, picture, product, settled, unique, withBrowser } from './browser';

withBrowser();
let context: BrowserContext;
let page: Page;

beforeAll(async () => {
  context = await adminContext();
  page = await context.newPage();
});

afterAll(async () => {
  await context?.close();
});

async function writeTemplate(name: string, subject: string, body: string): Promise<void> {
  await open(page, 'templates');
  await page.getByRole('link', { name: 'Write a template' }).first().click();
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Subject').fill(subject);
  await page.getByRole('textbox', { name: 'Body' }).fill(body);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
}

test('from sign-in to a welcome mail that an event starts', async () => {
  const name = unique('Welcome');
  await writeTemplate(name, 'Hello {{ name | default: "friend" }}', '<p>Good to have you, {{ name }}.</p>');
  await page.getByTestId('preview-subject').getByText('Hello friend').waitFor();
  await picture(page, 'act-template');

  await page.getByRole('link', { name: 'Automations' }).click();
  await page.getByRole('link', { name: 'Make an automation' }).first().click();
  await page.getByLabel('Name').fill(name);
  await page.getByLabel(/^Event( \*)?$/).fill('signed_up');
  await page.getByRole('button', { name: 'Add a step' }).click();
  await page.getByLabel('Template').selectOption({ label: name });
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await page.getByRole('button', { name: 'Activate' }).click();
  await page.getByRole('button', { name: 'Stop' }).waitFor();
  const automation = page.url();

  await page.getByRole('link', { name: 'API keys' }).click();
  await page.getByRole('button', { name: 'Make a key' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill(name);
  await page.getByRole('dialog').getByRole('button', { name: 'Make a key' }).click();
  const key = await page.getByTestId('secret').innerText();
  expect(key).toMatch(/^pk_live_/);
  await page.getByRole('button', { name: 'I have kept it' }).click();

  const who = unique('ann').replace(' ', '-');
  await call('POST', '/users/identify', { user_id: who, properties: { email: `${who}@example.com`, name: 'Ann' } }, key);
  await call('POST', '/events', { event: 'signed_up', user_id: who }, key);
  await eventually(() => expect(mails(`${who}@example.com`)).toHaveLength(1));

  // And it is seen: the report, the run's path, the person, the message.
  await page.goto(automation);
  await page.getByText('Send an email (steps[0])').waitFor();
  await picture(page, 'act-automation');
  await page.getByRole('link', { name: 'Runs' }).click();
  await page.getByRole('link', { name: who }).click();
  await page.getByText('Send an email (steps[0])').waitFor();
  await picture(page, 'act-run');
  await page.getByRole('region', { name: 'Path' }).getByRole('link').first().click();
  await page.getByText('Hello Ann').first().waitFor();
  await picture(page, 'act-message');
  await page.getByRole('link', { name: who }).click();
  await page.getByRole('heading', { level: 1, name: 'Ann' }).waitFor();
  await page.getByRole('region', { name: 'Events' }).getByText('signed_up').waitFor();
  await settled(page);
  await picture(page, 'act-person');
  expectNoComplaints(context);
});

test('a segment by rules, and a campaign to it that is delivered', async () => {
  const name = unique('Pro');
  const people = [0, 1, 2].map((index) => `${name.replace(' ', '-').toLowerCase()}-${index}`);
  for (const who of people) await call('POST', '/users/identify', { user_id: who, properties: { email: `${who}@example.com`, plan: name } });
  await eventually(async () => expect((await call<{ total: number }>('GET', `/users?search=${people[2]}`)).total).toBe(1));
  await writeTemplate(name, `News of ${name}`, '<p>News.</p>');

  await open(page, 'segments/new');
  await page.getByLabel('Name').fill(name);
  await page.getByRole('button', { name: 'Add a rule' }).click();
  await page.getByLabel('Field').fill('properties.plan');
  await page.getByLabel('Value').fill(name);
  await expectText('estimate', '3');
  await picture(page, 'act-segment');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await page.getByLabel('User id').fill(people[0] ?? '');
  await page.getByRole('button', { name: 'Test' }).click();
  await page.getByText('In the segment').waitFor();

  await open(page, 'campaigns/new');
  await page.getByLabel('Name').fill(name);
  await page.getByLabel(/^Segment( \*)?$/).selectOption({ label: name });
  await page.getByText('3 people are in it now.').waitFor();
  await page.getByRole('button', { name: 'Next' }).click();
  await page.getByLabel('Template').selectOption({ label: name });
  await page.getByRole('button', { name: 'Next' }).click();
  await page.getByRole('button', { name: 'Next' }).click();
  await picture(page, 'act-campaign-review');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await page.getByRole('button', { name: 'Send now' }).click();
  await page.getByRole('dialog').getByText('to 3 people').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Send now' }).click();
  await page.getByText('Completed').waitFor({ timeout: 45_000 });
  await expectText('progress', '3 of 3 settled');
  for (const who of people) expect(mails(`${who}@example.com`)).toHaveLength(1);
  await picture(page, 'act-campaign');
  expectNoComplaints(context);
});

test('a new project: its keys, once, and its first event as it arrives', async () => {
  const name = unique('Second shop');
  await page.goto(`${product.origin}/new-project`);
  await page.getByLabel('Name').fill(name);
  await page.getByRole('button', { name: 'Create the project' }).click();
  await page.getByRole('button', { name: 'Make its keys' }).click();
  const key = await page.locator('pre').filter({ hasText: /^pk_live_/ }).first().innerText();
  await page.getByText('Waiting for the first event…').waitFor();
  const sent = await fetch(`${product.origin}/api/v1/events`, { method: 'POST', headers: { 'x-api-key': key, 'content-type': 'application/json' }, body: JSON.stringify({ event: 'first_light', user_id: 'ada' }) });
  expect(sent.status).toBe(202);
  await page.getByText('It is here: first_light.').waitFor();
  await picture(page, 'act-new-project');
  await page.getByRole('link', { name: 'To the project' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await eventually(async () => expect(await page.getByLabel('Project', { exact: true }).locator('option:checked').innerText()).toBe(name));
});

async function expectText(id: string, text: string): Promise<void> {
  await eventually(async () => expect(await page.getByTestId(id).innerText()).toBe(text));
}
