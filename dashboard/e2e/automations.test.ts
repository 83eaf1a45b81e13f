import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  adminContext,
  call,
  eventually,
  expectCount,
  expectNoComplaints,
  open,
  picture,
  press,
  unique,
  withBrowser,
} from './browser';

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

interface Automation {
  id: string;
  steps: Array<Record<string, unknown>>;
}

test('an automation is tried with somebody made up, and nothing is sent', async () => {
  const name = unique('Tried');
  const { id: templateId } = await call<{ id: string }>('POST', '/templates', {
    name,
    channel: 'EMAIL',
    subject: 's',
    body: 'b',
  });
  const branch = {
    type: 'BRANCH',
    branches: [
      {
        rules: [{ field: 'properties.plan', operator: 'eq', value: 'pro' }],
        steps: [{ type: 'SEND_EMAIL', templateId }],
      },
    ],
    else: [{ type: 'EXIT' }],
  };
  const filter = [{ field: 'properties.total', operator: 'gte', value: 10 }];
  const { id } = await call<Automation>('POST', '/automations', {
    name,
    triggerType: 'EVENT',
    triggerEvent: 'order_completed',
    triggerFilter: filter,
    steps: [{ type: 'WAIT', delay: 86_400 }, branch],
  });
  await open(page, `automations/${id}`);
  const told = page.getByRole('status').filter({ has: page.getByText(/comes? in/i) });
  const attempt = async (plan: string, total: number) => {
    await page.getByLabel('Their properties (JSON)').fill(JSON.stringify({ plan, email: 'ann@example.com' }));
    await page.getByLabel('Properties of the trigger (JSON)').fill(JSON.stringify({ total }));
    expect(await press(page, 'Try')).toBe(200);
  };
  await attempt('pro', 20);
  await told.getByText('Comes in. Ends as completed').waitFor();
  await told.getByText('Wait (steps[0])').first().waitFor();
  await told.getByText(/Send an email \(steps\[1\]/).waitFor();
  await picture(page, 'act-simulate');
  await attempt('free', 20);
  await told.getByText('Comes in. Ends as exited').waitFor();
  await expectCount(told.getByText(/Send an email/), 0);
  await attempt('pro', 5);
  await told.getByText('Does not come in').waitFor();
  const { runs } = await call<{ runs: unknown[] }>('GET', `/automations/${id}/runs`);
  expect(runs).toEqual([]);
  expectNoComplaints(context);
});

test('steps are put in another order, by keyboard', async () => {
  const steps = [{ type: 'WAIT', delay: 60 }, { type: 'TRACK_EVENT', event: 'reminded' }, { type: 'EXIT' }];
  const { id } = await call<Automation>('POST', '/automations', {
    name: unique('Order'),
    triggerType: 'EVENT',
    triggerEvent: 'x',
    steps,
  });
  await open(page, `automations/${id}?view=list`);
  const kinds = async () => (await call<Automation>('GET', `/automations/${id}`)).steps.map(({ type }) => type);
  await page.getByRole('button', { name: 'Move up: 2' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('group', { name: 'Step 1: Record an event' }).waitFor();
  // Whoever moved it is still at it, also where it goes no further.
  const held = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label'));
  await eventually(async () => expect(await held()).toBe('Move up: 1'));
  await page.keyboard.press('Enter');
  expect(await press(page, 'Save')).toBe(200);
  expect(await kinds()).toEqual(['TRACK_EVENT', 'WAIT', 'EXIT']);
  await page.getByRole('button', { name: 'Move down: 1' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('group', { name: 'Step 2: Record an event' }).waitFor();
  await eventually(async () => expect(await held()).toBe('Move down: 2'));
  expect(await press(page, 'Save')).toBe(200);
  expect(await kinds()).toEqual(['WAIT', 'TRACK_EVENT', 'EXIT']);
  expectNoComplaints(context);
});
