import { type BrowserContext, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  adminContext,
  call,
  eventually,
  expectAccessible,
  expectNoBrowserErrors,
  expectValue,
  mails,
  newContext,
  open,
  screenshot,
  product,
  settled,
  turnDark,
  unique,
  withBrowser,
} from './browser';
import { startProduct } from './product';

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
  await page.getByRole('link', { name: 'Create template' }).first().click();
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Subject').fill(subject);
  await page.getByRole('textbox', { name: 'Body' }).fill(body);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
}

/** Time within which a new user must succeed, without reading the documentation. */
const TIME_LIMIT_MS = 5 * 60_000;

test(
  'new user sends a first welcome mail using only the dashboard',
  async () => {
    const began = Date.now();
    const { product: installation, stop } = await startProduct();
    const up = Date.now();
    const newUser = await newContext();
    try {
      const screen = await newUser.newPage();
      await screen.goto(installation.origin);
      await screen.getByLabel('Email').fill(installation.email);
      await screen.locator('input[name="password"]').fill(installation.password);
      await screen.getByRole('button', { name: 'Sign in' }).click();

      // The checklist marks completed steps and has a button for each step.
      await screen.getByRole('heading', { name: 'Get started' }).waitFor();
      const steps = screen.getByRole('list', { name: 'First steps' });
      const isMarked = (number: number, state: 'done' | 'to do') =>
        steps.getByRole('img', { name: `Step ${number}: ${state}` }).waitFor();
      const overview = async () => {
        await screen.getByRole('link', { name: 'Overview' }).click();
        await steps.waitFor();
      };
      await isMarked(1, 'done');
      await steps.getByText('email is sent to a mailbox on this machine').waitFor();
      for (const number of [2, 3, 4, 5, 6]) await isMarked(number, 'to do');
      await settled(screen);
      await screenshot(screen, 'first-steps-overview', false);
      await expectAccessible(screen, 'first steps');
      await turnDark(screen);
      await expectAccessible(screen, 'first steps, dark');
      await screen.setViewportSize({ width: 390, height: 844 });
      await eventually(async () => expect(await screen.evaluate(() => document.documentElement.scrollWidth)).toBe(390));
      await screenshot(screen, 'first-steps-overview-phone-dark');
      await screen.setViewportSize({ width: 1280, height: 900 });
      await screen.emulateMedia({ colorScheme: 'light' });

      await steps.getByRole('link', { name: 'Create template' }).click();
      await screen.getByLabel('Name').fill('Welcome');
      await screen.getByLabel('Subject').fill('Hello {{ name | default: "friend" }}');
      await screen.getByRole('textbox', { name: 'Body' }).fill('<p>Good to have you, {{ name }}.</p>');
      await screen.getByRole('button', { name: 'Save' }).click();
      await screen.getByRole('heading', { level: 1, name: 'Welcome' }).waitFor();
      await screen.getByTestId('preview-subject').getByText('Hello friend').waitFor();
      await screenshot(screen, 'first-steps-template', false);

      await overview();
      await isMarked(2, 'done');
      await steps.getByRole('link', { name: 'Create automation' }).click();
      await screen.getByLabel('Name').fill('Welcome');
      await screen.getByLabel(/^Event( \*)?$/).fill('signed_up');
      await screen.getByRole('button', { name: 'Add step' }).click();
      await screen.getByLabel('Template').selectOption({ label: 'Welcome' });
      await screen.getByRole('button', { name: 'Save' }).click();
      await screen.getByRole('heading', { level: 1, name: 'Welcome' }).waitFor();
      await screen.getByRole('button', { name: 'Activate' }).click();
      await screen.getByRole('region', { name: 'Test this automation:' }).getByText('signed_up').waitFor();
      await screenshot(screen, 'first-steps-automation');

      await overview();
      await isMarked(3, 'done');
      await steps.getByRole('button', { name: 'Add user' }).click();
      const user = screen.getByRole('dialog', { name: 'Add user' });
      await user.getByLabel('User ID').fill('ada');
      await user.getByLabel('Email').fill('ada@example.com');
      await user.getByLabel('Name').fill('Ada');
      await screenshot(screen, 'first-steps-person', false);
      await user.getByRole('button', { name: 'Add' }).click();
      await isMarked(4, 'done');

      await steps.getByRole('button', { name: 'Send event' }).click();
      const event = screen.getByRole('dialog', { name: 'Send event' });
      // The form is prefilled with the added user and the trigger event.
      await expectValue(event.getByLabel('Event'), 'signed_up');
      await expectValue(event.getByLabel('User ID'), 'ada');
      await screenshot(screen, 'first-steps-event', false);
      await event.getByRole('button', { name: 'Send' }).click();
      for (const number of [1, 2, 3, 4, 5, 6]) await isMarked(number, 'done');
      await screen.getByRole('heading', { name: 'Your first message was sent' }).waitFor();
      await screenshot(screen, 'first-steps-done', false);

      await steps.getByRole('link', { name: 'View message' }).click();
      await screen.getByRole('heading', { level: 1, name: 'Hello Ada' }).waitFor();
      await screen.getByRole('note').getByText('each mail is a file in .run/mail').waitFor();
      await eventually(() => expect(mails('ada@example.com', installation)).toHaveLength(1));
      expect(mails('Subject: Hello Ada', installation)).toHaveLength(1);
      const delivered = Date.now();
      await settled(screen);
      await screenshot(screen, 'first-steps-message');
      const seconds = (from: number, to: number) => `${((to - from) / 1_000).toFixed(1)} s`;
      process.stdout.write(
        `first steps: up in ${seconds(began, up)}, and to a delivered mail in ${seconds(up, delivered)} more\n`,
      );
      expect(delivered - began).toBeLessThan(TIME_LIMIT_MS);

      // The run of the automation shows the message and the user.
      await screen.getByRole('link', { name: 'Automations' }).click();
      await screen.getByRole('link', { name: 'Welcome' }).click();
      await screen.getByRole('link', { name: 'Runs' }).click();
      await screen.getByRole('link', { name: 'ada' }).click();
      await screen.getByText('Send email (step 1)').waitFor();
      await settled(screen);
      await screenshot(screen, 'first-steps-run');
      await screen.getByRole('region', { name: 'Path' }).getByRole('link').first().click();
      await screen.getByRole('link', { name: 'ada' }).click();
      await screen.getByRole('heading', { level: 1, name: 'Ada' }).waitFor();
      await screen.getByRole('region', { name: 'Events' }).getByText('signed_up').waitFor();
      expectNoBrowserErrors(newUser);
    } finally {
      await newUser.close();
      await stop();
    }
  },
  TIME_LIMIT_MS,
);

test('campaign to a dynamic segment is delivered', async () => {
  const name = unique('Pro');
  const userIds = [0, 1, 2].map((index) => `${name.replace(' ', '-').toLowerCase()}-${index}`);
  for (const userId of userIds)
    await call('POST', '/users/identify', {
      user_id: userId,
      properties: { email: `${userId}@example.com`, plan: name },
    });
  await eventually(async () =>
    expect((await call<{ total: number }>('GET', `/users?search=${userIds[2]}`)).total).toBe(1),
  );
  await writeTemplate(name, `News of ${name}`, '<p>News.</p>');

  await open(page, 'segments/new');
  await page.getByLabel('Name').fill(name);
  await page.getByRole('button', { name: 'Add condition' }).click();
  await page.getByLabel('Field').fill('properties.plan');
  await page.getByLabel('Value').fill(name);
  await expectText('estimate', '3');
  await screenshot(page, 'act-segment');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await page.getByLabel('User ID').fill(userIds[0] ?? '');
  await page.getByRole('button', { name: 'Check' }).click();
  await page.getByText('In this segment').waitFor();

  await open(page, 'campaigns/new');
  await page.getByLabel('Name').fill(name);
  await page.getByLabel(/^Segment( \*)?$/).selectOption({ label: name });
  await page.getByText('3 users are in this segment now.').waitFor();
  await page.getByRole('button', { name: 'Next' }).click();
  await page.getByLabel('Template').selectOption({ label: name });
  await page.getByRole('button', { name: 'Next' }).click();
  await page.getByRole('button', { name: 'Next' }).click();
  await screenshot(page, 'act-campaign-review');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await page.getByRole('button', { name: 'Send now' }).click();
  await page.getByRole('dialog').getByText('to 3 users').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Send now' }).click();
  await page.getByText('Completed').waitFor({ timeout: 45_000 });
  await expectText('progress', '3 of 3 processed');
  for (const userId of userIds) expect(mails(`${userId}@example.com`)).toHaveLength(1);
  await screenshot(page, 'act-campaign');
  expectNoBrowserErrors(context);
});

test('new project shows its API keys once and reports its first event', async () => {
  const name = unique('Second shop');
  await page.goto(`${product.origin}/new-project`);
  await page.getByLabel('Name').fill(name);
  await page.getByRole('button', { name: 'Create project' }).click();
  await page.getByRole('button', { name: 'Create API keys' }).click();
  const key = await page
    .locator('pre')
    .filter({ hasText: /^pk_live_/ })
    .first()
    .innerText();
  await page.getByText('Waiting for the first event…').waitFor();
  const sent = await fetch(`${product.origin}/api/v1/events`, {
    method: 'POST',
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    body: JSON.stringify({ event: 'first_light', user_id: 'ada' }),
  });
  expect(sent.status).toBe(202);
  await page.getByText('Event received: first_light.').waitFor();
  await screenshot(page, 'act-new-project');
  await page.getByRole('link', { name: 'Go to project' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await eventually(async () =>
    expect(await page.getByLabel('Project', { exact: true }).locator('option:checked').innerText()).toBe(name),
  );
});

async function expectText(id: string, text: string): Promise<void> {
  await eventually(async () => expect(await page.getByTestId(id).innerText()).toBe(text));
}
