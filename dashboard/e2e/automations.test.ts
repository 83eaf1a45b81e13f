import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  adminContext,
  call,
  eventually,
  expectCount,
  expectNoBrowserErrors,
  open,
  screenshot,
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

test('test run simulates a user without sending messages', async () => {
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
  const result = page.getByRole('status').filter({ has: page.getByText(/would (not )?enter/i) });
  const attempt = async (plan: string, total: number) => {
    await page.getByLabel('User properties (JSON)').fill(JSON.stringify({ plan, email: 'ann@example.com' }));
    await page.getByLabel('Trigger properties (JSON)').fill(JSON.stringify({ total }));
    expect(await press(page, 'Run test')).toBe(200);
  };
  await attempt('pro', 20);
  await result.getByText('Would enter. Final status: Completed').waitFor();
  await result.getByText('Wait (step 1)').first().waitFor();
  await result.getByText('Send email (step 1 in “Path 1” of step 2)').waitFor();
  await screenshot(page, 'act-simulate');
  await attempt('free', 20);
  await result.getByText('Would enter. Final status: Exited (Reached an Exit step).').waitFor();
  await expectCount(result.getByText(/Send email/), 0);
  await attempt('pro', 5);
  await result.getByText('Would not enter').waitFor();
  const { runs } = await call<{ runs: unknown[] }>('GET', `/automations/${id}/runs`);
  expect(runs).toEqual([]);
  expectNoBrowserErrors(context);
});

test('steps are reordered by keyboard', async () => {
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
  await page.getByRole('group', { name: 'Step 1: Track event' }).waitFor();
  // The focus stays on the button, even at the end of the list.
  const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label'));
  await eventually(async () => expect(await focused()).toBe('Move up: 1'));
  await page.keyboard.press('Enter');
  expect(await press(page, 'Save')).toBe(200);
  expect(await kinds()).toEqual(['TRACK_EVENT', 'WAIT', 'EXIT']);
  await page.getByRole('button', { name: 'Move down: 1' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('group', { name: 'Step 2: Track event' }).waitFor();
  await eventually(async () => expect(await focused()).toBe('Move down: 2'));
  expect(await press(page, 'Save')).toBe(200);
  expect(await kinds()).toEqual(['WAIT', 'TRACK_EVENT', 'EXIT']);
  expectNoBrowserErrors(context);
});
