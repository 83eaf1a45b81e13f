import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import {
  call,
  eventually,
  expectCount,
  expectNoBrowserErrors,
  open,
  screenshot,
  press,
  unique,
  withAdmin,
} from './browser';

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

test('large workflow is fitted to the canvas when it opens, and can be zoomed', async () => {
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
  await screenshot(page, 'canvas-whole');
  const initial = await zoomOf(canvas);
  expect(initial).toBeLessThan(0.5);
  await page.getByRole('button', { name: 'Zoom in' }).click();
  await eventually(async () => expect(await zoomOf(canvas)).toBeGreaterThan(initial));
  const zoomed = await zoomOf(canvas);
  // Editing and saving keep the zoom.
  await canvas.locator('.canvas-step').first().click();
  await page
    .getByRole('group', { name: 'Edit step: Wait' })
    .getByLabel(/^Duration/)
    .fill('2h');
  expect(await press(page, 'Save')).toBe(200);
  await page.getByText('Saved.').waitFor();
  await eventually(async () => expect(await zoomOf(canvas)).toBe(zoomed));
  expectNoBrowserErrors(context);
});

test('invalid rule of a branch marks the step that it belongs to', async () => {
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
  const step = page.locator('.canvas-step', { has: page.locator('.canvas-name', { hasText: 'Conditional split' }) });
  await step.click();
  const form = page.getByRole('group', { name: 'Edit step: Conditional split' });
  await form.getByLabel('Field').fill('');
  expect(await press(page, 'Save')).toBe(422);
  await step.getByText('Needs correction').waitFor();
  await expectCount(page.locator('.canvas-step[data-invalid]'), 1);
  // The error is shown once, at the rule.
  await expectCount(form.getByRole('alert'), 1);
  await form.getByLabel('Field').fill('properties.tariff');
  expect(await press(page, 'Save')).toBe(200);
  await expectCount(page.locator('.canvas-step[data-invalid]'), 0);
  expectNoBrowserErrors(context);
});
