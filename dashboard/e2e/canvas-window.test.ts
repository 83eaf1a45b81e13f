import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import { call, eventually, expectCount, expectNoComplaints, open, picture, press, unique, withAdmin } from './browser';

const admin = withAdmin();

interface Id {
  id: string;
}

async function zoomOf(canvas: Locator): Promise<number> {
  const transform = await canvas
    .locator('.react-flow__viewport')
    .evaluate((element) => getComputedStyle(element).transform);
  return Number(/matrix\(([\d.]+)/.exec(transform)?.[1] ?? Number.NaN);
}

test('a journey that is larger than its window is seen whole when it opens, and then as near as one likes', async () => {
  const { page, context } = admin;
  const waits = Array.from({ length: 6 }, () => ({ type: 'WAIT', delay: 60 }));
  const split = {
    type: 'SPLIT',
    branches: Array.from({ length: 4 }, () => ({ weight: 25, steps: waits.slice(0, 2) })),
  };
  const { id } = await call<Id>('POST', '/automations', {
    name: unique('Long'),
    triggerType: 'EVENT',
    triggerEvent: 'x',
    steps: [...waits, split],
  });
  await open(page, `automations/${id}?view=canvas`);
  const canvas = page.locator('.canvas-frame');
  const outside = () =>
    canvas.evaluate((frame) => {
      const window = frame.getBoundingClientRect();
      const parts = [...frame.querySelectorAll('.canvas-step, .canvas-trigger, .canvas-end')].map((part) =>
        part.getBoundingClientRect(),
      );
      return {
        parts: parts.length,
        outside: parts.filter(
          (part) =>
            part.top < window.top ||
            part.bottom > window.bottom ||
            part.left < window.left ||
            part.right > window.right,
        ).length,
      };
    });
  await eventually(async () => expect(await outside()).toEqual({ parts: 17, outside: 0 }));
  await picture(page, 'canvas-whole');
  const whole = await zoomOf(canvas);
  expect(whole).toBeLessThan(0.5);
  await page.getByRole('button', { name: 'Nearer' }).click();
  await eventually(async () => expect(await zoomOf(canvas)).toBeGreaterThan(whole));
  const nearer = await zoomOf(canvas);
  // What is done then leaves it so.
  await canvas.locator('.canvas-step').first().click();
  await page
    .getByRole('group', { name: 'Form of Wait' })
    .getByLabel(/^For, such as/)
    .fill('2h');
  expect(await press(page, 'Save')).toBe(200);
  await page.getByText('Saved.').waitFor();
  await eventually(async () => expect(await zoomOf(canvas)).toBe(nearer));
  expectNoComplaints(context);
});

test('a rule of a way that is refused marks the step that leads there', async () => {
  const { page, context } = admin;
  const branch = {
    type: 'BRANCH',
    branches: [
      { rules: [{ field: 'properties.plan', operator: 'eq', value: 'pro' }], steps: [{ type: 'WAIT', delay: 60 }] },
    ],
  };
  const { id } = await call<Id>('POST', '/automations', {
    name: unique('Refused'),
    triggerType: 'EVENT',
    triggerEvent: 'x',
    steps: [branch, { type: 'EXIT' }],
  });
  await open(page, `automations/${id}?view=canvas`);
  const step = page.locator('.canvas-step', { has: page.locator('.canvas-name', { hasText: 'Branch by rules' }) });
  await step.click();
  const form = page.getByRole('group', { name: 'Form of Branch by rules' });
  await form.getByLabel('Field').fill('');
  expect(await press(page, 'Save')).toBe(422);
  await step.getByText('Something needs to be changed here').waitFor();
  await expectCount(page.locator('.canvas-step[data-wrong]'), 1);
  // Once, where it is to be changed.
  await expectCount(form.getByRole('alert'), 1);
  await form.getByLabel('Field').fill('properties.tariff');
  expect(await press(page, 'Save')).toBe(200);
  await expectCount(page.locator('.canvas-step[data-wrong]'), 0);
  expectNoComplaints(context);
});
