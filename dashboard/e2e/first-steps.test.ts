import { type BrowserContext, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  adminContext,
  call,
  eventually,
  expectAccessible,
  expectNoComplaints,
  expectValue,
  mails,
  newContext,
  open,
  picture,
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
  await page.getByRole('link', { name: 'Write a template' }).first().click();
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Subject').fill(subject);
  await page.getByRole('textbox', { name: 'Body' }).fill(body);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
}

/** As long as a newcomer may take, without a look into the documents. */
const PATIENCE_MS = 5 * 60_000;

test(
  'a newcomer comes from nothing to a welcome mail, through the dashboard alone',
  async () => {
    const began = Date.now();
    const { product: own, stop } = await startProduct();
    const up = Date.now();
    const theirs = await newContext();
    try {
      const screen = await theirs.newPage();
      await screen.goto(own.origin);
      await screen.getByLabel('Email').fill(own.email);
      await screen.locator('input[name="password"]').fill(own.password);
      await screen.getByRole('button', { name: 'Sign in' }).click();

      // The overview leads: what is done is marked, and what comes next is a button beside it.
      await screen.getByRole('heading', { name: 'Nothing has happened here yet' }).waitFor();
      const steps = screen.getByRole('list', { name: 'First steps' });
      const isMarked = (number: number, state: 'done' | 'to do') =>
        steps.getByRole('img', { name: `Step ${number}: ${state}` }).waitFor();
      const overview = async () => {
        await screen.getByRole('link', { name: 'Overview' }).click();
        await steps.waitFor();
      };
      await isMarked(1, 'done');
      await steps.getByText('mail goes to a mailbox on this machine').waitFor();
      for (const number of [2, 3, 4, 5, 6]) await isMarked(number, 'to do');
      await settled(screen);
      await picture(screen, 'first-steps-overview', false);
      await expectAccessible(screen, 'first steps');
      await turnDark(screen);
      await expectAccessible(screen, 'first steps, dark');
      await screen.setViewportSize({ width: 390, height: 844 });
      await eventually(async () => expect(await screen.evaluate(() => document.documentElement.scrollWidth)).toBe(390));
      await picture(screen, 'first-steps-overview-phone-dark');
      await screen.setViewportSize({ width: 1280, height: 900 });
      await screen.emulateMedia({ colorScheme: 'light' });

      await steps.getByRole('link', { name: 'Write a template' }).click();
      await screen.getByLabel('Name').fill('Welcome');
      await screen.getByLabel('Subject').fill('Hello {{ name | default: "friend" }}');
      await screen.getByRole('textbox', { name: 'Body' }).fill('<p>Good to have you, {{ name }}.</p>');
      await screen.getByRole('button', { name: 'Save' }).click();
      await screen.getByRole('heading', { level: 1, name: 'Welcome' }).waitFor();
      await screen.getByTestId('preview-subject').getByText('Hello friend').waitFor();
      await picture(screen, 'first-steps-template', false);

      await overview();
      await isMarked(2, 'done');
      await steps.getByRole('link', { name: 'Make an automation' }).click();
      await screen.getByLabel('Name').fill('Welcome');
      await screen.getByLabel(/^Event( \*)?$/).fill('signed_up');
      await screen.getByRole('button', { name: 'Add a step' }).click();
      await screen.getByLabel('Template').selectOption({ label: 'Welcome' });
      await screen.getByRole('button', { name: 'Save' }).click();
      await screen.getByRole('heading', { level: 1, name: 'Welcome' }).waitFor();
      await screen.getByRole('button', { name: 'Activate' }).click();
      await screen.getByRole('region', { name: 'Try it:' }).getByText('signed_up').waitFor();
      await picture(screen, 'first-steps-automation');

      await overview();
      await isMarked(3, 'done');
      await steps.getByRole('button', { name: 'Add a person' }).click();
      const person = screen.getByRole('dialog', { name: 'Add a person' });
      await person.getByLabel('User id').fill('ada');
      await person.getByLabel('Email').fill('ada@example.com');
      await person.getByLabel('Name').fill('Ada');
      await picture(screen, 'first-steps-person', false);
      await person.getByRole('button', { name: 'Add' }).click();
      await isMarked(4, 'done');

      await steps.getByRole('button', { name: 'Send an event' }).click();
      const event = screen.getByRole('dialog', { name: 'Send an event' });
      // There is nothing to fill in: who was added signs up.
      await expectValue(event.getByLabel('Event'), 'signed_up');
      await expectValue(event.getByLabel('User id'), 'ada');
      await picture(screen, 'first-steps-event', false);
      await event.getByRole('button', { name: 'Send' }).click();
      for (const number of [1, 2, 3, 4, 5, 6]) await isMarked(number, 'done');
      await screen.getByRole('heading', { name: 'The first message is there' }).waitFor();
      await picture(screen, 'first-steps-done', false);

      await steps.getByRole('link', { name: 'Open the message' }).click();
      await screen.getByRole('heading', { level: 1, name: 'Hello Ada' }).waitFor();
      await screen.getByRole('note').getByText('each mail is a file in .run/mail').waitFor();
      await eventually(() => expect(mails('ada@example.com', own)).toHaveLength(1));
      expect(mails('Subject: Hello Ada', own)).toHaveLength(1);
      const came = Date.now();
      await settled(screen);
      await picture(screen, 'first-steps-message');
      const told = (from: number, to: number) => `${((to - from) / 1_000).toFixed(1)} s`;
      process.stdout.write(
        `first steps: up in ${told(began, up)}, and to a delivered mail in ${told(up, came)} more\n`,
      );
      expect(came - began).toBeLessThan(PATIENCE_MS);

      // And it is seen where it came from: each person's way.
      await screen.getByRole('link', { name: 'Automations' }).click();
      await screen.getByRole('link', { name: 'Welcome' }).click();
      await screen.getByRole('link', { name: 'Runs' }).click();
      await screen.getByRole('link', { name: 'ada' }).click();
      await screen.getByText('Send an email (steps[0])').waitFor();
      await settled(screen);
      await picture(screen, 'first-steps-run');
      await screen.getByRole('region', { name: 'Path' }).getByRole('link').first().click();
      await screen.getByRole('link', { name: 'ada' }).click();
      await screen.getByRole('heading', { level: 1, name: 'Ada' }).waitFor();
      await screen.getByRole('region', { name: 'Events' }).getByText('signed_up').waitFor();
      expectNoComplaints(theirs);
    } finally {
      await theirs.close();
      await stop();
    }
  },
  PATIENCE_MS,
);

test('a segment by rules, and a campaign to it that is delivered', async () => {
  const name = unique('Pro');
  const people = [0, 1, 2].map((index) => `${name.replace(' ', '-').toLowerCase()}-${index}`);
  for (const who of people)
    await call('POST', '/users/identify', { user_id: who, properties: { email: `${who}@example.com`, plan: name } });
  await eventually(async () =>
    expect((await call<{ total: number }>('GET', `/users?search=${people[2]}`)).total).toBe(1),
  );
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
  await page.getByText('It is here: first_light.').waitFor();
  await picture(page, 'act-new-project');
  await page.getByRole('link', { name: 'To the project' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await eventually(async () =>
    expect(await page.getByLabel('Project', { exact: true }).locator('option:checked').innerText()).toBe(name),
  );
});

async function expectText(id: string, text: string): Promise<void> {
  await eventually(async () => expect(await page.getByTestId(id).innerText()).toBe(text));
}
