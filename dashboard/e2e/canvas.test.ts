import type { BrowserContext, Locator, Page } from 'playwright-core';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  adminContext,
  call,
  eventually,
  expectAccessible,
  expectCount,
  expectDisabled,
  expectNoBrowserErrors,
  expectValue,
  open,
  screenshot,
  press,
  product,
  turnDark,
  unique,
  withBrowser,
} from './browser';

withBrowser();
let context: BrowserContext;
let page: Page;
const consoleMessages: string[] = [];

beforeEach(async () => {
  context = await adminContext();
  page = await context.newPage();
  consoleMessages.length = 0;
  page.on(
    'console',
    (message) => ['warning', 'error'].includes(message.type()) && consoleMessages.push(message.text()),
  );
});

afterEach(async () => {
  await context.close();
});

interface Saved {
  id: string;
  steps: unknown[];
}

async function savedSteps(name: string): Promise<unknown[]> {
  const { automations } = await call<{ automations: Array<Saved & { name: string }> }>('GET', '/automations');
  return automations.find((each) => each.name === name)?.steps ?? [];
}

/** Finds a step on the canvas by its type or its details. */
const step = (name: string): Locator =>
  page.locator('.canvas-step', { has: page.locator('.canvas-name, .canvas-detail', { hasText: name }) });
const form = (name: string): Locator => page.getByRole('group', { name: `Edit step: ${name}` });

async function middle(of: Locator): Promise<{ x: number; y: number }> {
  const box = await of.boundingBox();
  if (!box) throw new Error('the element is not visible');
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}

async function drag(from: Locator, to: Locator): Promise<void> {
  await from.scrollIntoViewIfNeeded();
  const [start, end] = [await middle(from), await middle(to)];
  await page.mouse.move(start.x, start.y);
  await page.mouse.down();
  await page.mouse.move(end.x, end.y, { steps: 12 });
  await page.mouse.up();
}

test('automation is built on the canvas with the mouse', async () => {
  const name = unique('By mouse');
  await open(page, 'automations/new');
  await page.getByLabel('Name').fill(name);
  await page.getByLabel(/^Event( \*)?$/).fill('signed_up');
  const stepType = page.getByLabel('Step type');
  await stepType.selectOption({ label: 'Track event' });
  await page.getByRole('button', { name: 'Add step' }).click();
  await form('Track event').getByLabel('Event').fill('welcomed');
  await stepType.selectOption({ label: 'A/B split' });
  await page.getByRole('button', { name: 'Add step' }).click();
  await form('A/B split').getByLabel('Weight').first().fill('70');
  await page.getByText('Path 1: weight 70').waitFor();
  await stepType.selectOption({ label: 'Wait' });
  await page.getByRole('button', { name: /^Insert “Wait” at the start of “Path 2/ }).click();
  await form('Wait')
    .getByLabel(/^Duration/)
    .fill('2h');
  await form('Wait').getByLabel('Close step').click();
  await step('welcomed').waitFor();
  await step('2h').waitFor();

  // Into a branch, then out of it again, after the split.
  await drag(step('welcomed'), page.getByRole('button', { name: /^Insert “Wait” at the start of “Path 1/ }));
  await step('welcomed').getByText('Step 1 of 1 in “Path 1: weight 70” of “A/B split”').waitFor();
  await drag(step('2h'), page.getByRole('button', { name: 'Insert “Wait” after step 1', exact: true }));
  await step('2h').getByText('Step 2 of 2').waitFor();
  await drag(step('2h'), page.getByRole('button', { name: /^Insert “Wait” at the start of “Path 2/ }));
  await step('2h').getByText('Step 1 of 1 in “Path 2').waitFor();
  await stepType.selectOption({ label: 'Exit' });
  await page.getByRole('button', { name: 'Insert “Exit” after step 1', exact: true }).click();
  await form('Exit').getByLabel('Close step').click();
  await screenshot(page, 'act-canvas');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
  const split = {
    type: 'SPLIT',
    branches: [
      { weight: 70, steps: [{ type: 'TRACK_EVENT', event: 'welcomed' }] },
      { weight: 50, steps: [{ type: 'WAIT', delay: 7_200 }] },
    ],
  };
  expect(await savedSteps(name)).toMatchObject([split, { type: 'EXIT' }]);

  // A drag that ends away from any spot changes nothing; a removed step is deleted.
  await page.mouse.move(0, 0);
  const before = await middle(step('2h'));
  await page.mouse.move(before.x, before.y);
  await page.mouse.down();
  await page.mouse.move(before.x + 300, before.y - 30, { steps: 8 });
  await page.mouse.up();
  await eventually(async () => expect(await middle(step('2h'))).toEqual(before));
  await expectDisabled(page.getByRole('button', { name: 'Save' }));
  await step('Exit').click();
  await form('Exit').getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('button', { name: 'Save' }).click();
  await eventually(async () => expect(await savedSteps(name)).toHaveLength(1));
  expect(await savedSteps(name)).toMatchObject([split]);
  // The list view shows the same steps.
  await page.getByText('List', { exact: true }).click();
  await page.getByRole('group', { name: 'Step 1: A/B split' }).waitFor();
  await page.waitForURL(/view=list/);
  expect(consoleMessages).toEqual([]);
  expectNoBrowserErrors(context);
});

/** Presses Tab until the focused element has this name. */
async function tabTo(name: RegExp, key: 'Tab' | 'Shift+Tab' = 'Tab'): Promise<void> {
  for (let presses = 0; presses < 150; presses++) {
    await page.keyboard.press(key);
    const focused = await page.evaluate(() => {
      const element = document.activeElement;
      const label =
        element instanceof HTMLInputElement || element instanceof HTMLSelectElement
          ? element.labels?.[0]?.textContent
          : null;
      return element?.getAttribute('aria-label') ?? label ?? element?.textContent ?? '';
    });
    if (name.test(focused)) return;
  }
  throw new Error(`${String(name)} is not reached by ${key}`);
}

async function addStep(type: string, back: boolean): Promise<void> {
  await tabTo(/^Step type/, back ? 'Shift+Tab' : 'Tab');
  await page.keyboard.type(type);
  await tabTo(/^Add step$/);
  await page.keyboard.press('Enter');
  await form(type).waitFor();
}

/** A text was announced to screen readers. */
async function expectAnnounced(text: string): Promise<void> {
  await eventually(async () => expect(await page.getByRole('status').allInnerTexts()).toContain(text));
}

test('automation is built on the canvas with the keyboard only', async () => {
  const name = unique('By keys');
  await open(page, 'automations/new?view=canvas');
  await tabTo(/^Name/);
  await page.keyboard.type(name);
  await tabTo(/^Event/);
  await page.keyboard.type('signed_up');
  await addStep('A/B split', false);
  await expectAnnounced('A/B split opened.');
  await page.keyboard.press('Escape');
  await eventually(async () =>
    expect(await page.evaluate(() => document.activeElement?.className)).toBe('canvas-step'),
  );

  await addStep('Wait', true);
  await tabTo(/^Duration/);
  await page.keyboard.press('Control+A');
  await page.keyboard.type('3h');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Alt+ArrowRight');
  await expectAnnounced('Wait moved: Step 1 of 1 in “Path 1: weight 50” of “A/B split”.');
  await page.keyboard.press('Alt+ArrowRight');
  await expectAnnounced('Wait moved: Step 1 of 1 in “Path 2: weight 50” of “A/B split”.');
  await page.keyboard.press('Alt+ArrowDown');
  await expectAnnounced('Not moved: the step cannot go further in this direction.');

  await addStep('Exit', true);
  await page.keyboard.press('Escape');
  await page.keyboard.press('Alt+ArrowUp');
  await expectAnnounced('Exit moved: Step 1 of 2.');
  await page.keyboard.press('Delete');
  await expectAnnounced('Exit removed.');
  // The focus is on the spot where the removed step was.
  await eventually(async () =>
    expect(await page.evaluate(() => document.activeElement?.className)).toBe('canvas-spot'),
  );
  await page.keyboard.press('Enter');
  await form('Exit').waitFor();
  await tabTo(/^Move down$/);
  await page.keyboard.press('Enter');
  await expectAnnounced('Exit moved: Step 2 of 2.');
  await tabTo(/^Move into the step above$/);
  await page.keyboard.press('Enter');
  await expectAnnounced('Exit moved: Step 1 of 1 in “Path 1: weight 50” of “A/B split”.');
  await tabTo(/^Save$/, 'Shift+Tab');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name }).waitFor();
  expect(await savedSteps(name)).toMatchObject([
    {
      type: 'SPLIT',
      branches: [
        { weight: 50, steps: [{ type: 'EXIT' }] },
        { weight: 50, steps: [{ type: 'WAIT', delay: 10_800 }] },
      ],
    },
  ]);
  expect(consoleMessages).toEqual([]);
  expectNoBrowserErrors(context);
});

test('step that cannot move does not take the focus later, and the open form stays open', async () => {
  const name = unique('Held');
  const steps = [{ type: 'WAIT', delay: 7_200 }, { type: 'TRACK_EVENT', event: 'reminded' }, { type: 'EXIT' }];
  const { id } = await call<Saved>('POST', '/automations', { name, triggerType: 'EVENT', triggerEvent: 'x', steps });
  await open(page, `automations/${id}?view=canvas`);
  await step('Exit').focus();
  for (let presses = 0; presses < 2; presses++) {
    await page.keyboard.press('Alt+ArrowDown');
    await expectAnnounced('Not moved: the step cannot go further in this direction.');
  }
  const field = page.getByLabel('Name');
  await field.press('End');
  await field.pressSequentially(' typed');
  await expectValue(field, `${name} typed`);

  // Removing an earlier step and saving keep the form of a step open.
  await step('reminded').click();
  await form('Track event').getByLabel('Event').fill('changed');
  await step('2h').press('Delete');
  await expectAnnounced('Wait removed.');
  expect(await press(page, 'Save')).toBe(200);
  await page.locator('button:disabled:not([data-loading])', { hasText: /^Save$/ }).waitFor();
  expect(await savedSteps(`${name} typed`)).toMatchObject([
    { type: 'TRACK_EVENT', event: 'changed' },
    { type: 'EXIT' },
  ]);
  await expectValue(form('Track event').getByLabel('Event'), 'changed');
  expect(await page.evaluate(() => document.activeElement?.className)).not.toContain('canvas-panel');
  expect(consoleMessages).toEqual([]);
  expectNoBrowserErrors(context);
});

test('canvas shows the counts of each step, and the step form is accessible', async () => {
  const name = unique('Counted');
  const steps = [
    {
      type: 'BRANCH',
      branches: [
        {
          rules: [{ field: 'properties.plan', operator: 'eq', value: 'pro' }],
          steps: [{ type: 'WAIT', delay: '30d' }],
        },
      ],
      else: [{ type: 'EXIT' }],
    },
  ];
  const { id } = await call<Saved>('POST', '/automations', {
    name,
    triggerType: 'EVENT',
    triggerEvent: name,
    active: true,
    steps,
  });
  for (const [userId, plan] of [
    ['p1', 'pro'],
    ['p2', 'pro'],
    ['f1', 'free'],
  ] as const) {
    await call('POST', '/users/identify', { user_id: name + userId, properties: { plan } });
    await call('POST', '/events', { event: name, user_id: name + userId }, product.publicKey);
  }
  await open(page, `automations/${id}?view=canvas`);
  await step('Conditional split').getByText('3 entered').waitFor({ timeout: 30_000 });
  await step('30d').getByText('2 entered, 2 waiting').waitFor({ timeout: 30_000 });
  await page.getByText('Path 1: 1 condition · 2').waitFor();
  await step('30d').click();
  await form('Wait').waitFor();
  await expectAccessible(page, 'canvas with a form');
  await turnDark(page);
  await expectAccessible(page, 'canvas with a form, dark');
  await screenshot(page, 'act-canvas-numbers');
  // On a phone the list is the default view, and the canvas can be selected.
  await page.setViewportSize({ width: 390, height: 844 });
  await open(page, `automations/${id}`);
  await page.getByRole('group', { name: 'Step 1: Conditional split' }).waitFor();
  await expectCount(page.locator('.canvas'), 0);
  await page.getByText('Canvas', { exact: true }).click();
  await step('Conditional split').waitFor();
  await page.waitForURL(/view=canvas/);
  expect(consoleMessages).toEqual([]);
  expectNoBrowserErrors(context);
});
