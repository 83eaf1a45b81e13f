import type { BrowserContext, Locator, Page } from 'playwright-core';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  adminContext,
  call,
  eventually,
  expectAccessible,
  expectCount,
  expectDisabled,
  expectNoComplaints,
  expectValue,
  open,
  picture,
  press,
  product,
  turnDark,
  unique,
  withBrowser,
} from './browser';

withBrowser();
let context: BrowserContext;
let page: Page;
const said: string[] = [];

beforeEach(async () => {
  context = await adminContext();
  page = await context.newPage();
  said.length = 0;
  page.on('console', (message) => ['warning', 'error'].includes(message.type()) && said.push(message.text()));
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

/** By its kind, or what it is about. */
const step = (name: string): Locator =>
  page.locator('.canvas-step', { has: page.locator('.canvas-name, .canvas-detail', { hasText: name }) });
const form = (name: string): Locator => page.getByRole('group', { name: `Form of ${name}` });

async function middle(of: Locator): Promise<{ x: number; y: number }> {
  const box = await of.boundingBox();
  if (!box) throw new Error('it is not seen');
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

test('an automation is built on the canvas, by mouse', async () => {
  const name = unique('By mouse');
  await open(page, 'automations/new');
  await page.getByLabel('Name').fill(name);
  await page.getByLabel(/^Event( \*)?$/).fill('signed_up');
  const kind = page.getByLabel('Kind of step to add');
  await kind.selectOption({ label: 'Record an event' });
  await page.getByRole('button', { name: 'Add a step' }).click();
  await form('Record an event').getByLabel('Event').fill('welcomed');
  await kind.selectOption({ label: 'Split by chance' });
  await page.getByRole('button', { name: 'Add a step' }).click();
  await form('Split by chance').getByLabel('Weight').first().fill('70');
  await page.getByText('Way 1: weight 70').waitFor();
  await kind.selectOption({ label: 'Wait' });
  await page.getByRole('button', { name: /^Insert “Wait” at the beginning of “Way 2/ }).click();
  await form('Wait')
    .getByLabel(/^For, such as/)
    .fill('2h');
  await form('Wait').getByLabel('Close the form').click();
  await step('welcomed').waitFor();
  await step('2h').waitFor();

  // Out of the list and into a way, then back behind the split.
  await drag(step('welcomed'), page.getByRole('button', { name: /^Insert “Wait” at the beginning of “Way 1/ }));
  await step('welcomed').getByText('Step 1 of 1 in “Way 1: weight 70” of “Split by chance”').waitFor();
  await drag(step('2h'), page.getByRole('button', { name: 'Insert “Wait” behind step 1', exact: true }));
  await step('2h').getByText('Step 2 of 2').waitFor();
  await drag(step('2h'), page.getByRole('button', { name: /^Insert “Wait” at the beginning of “Way 2/ }));
  await step('2h').getByText('Step 1 of 1 in “Way 2').waitFor();
  await kind.selectOption({ label: 'End here' });
  await page.getByRole('button', { name: 'Insert “End here” behind step 1', exact: true }).click();
  await form('End here').getByLabel('Close the form').click();
  await picture(page, 'act-canvas');
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

  // A drag that ends nowhere changes nothing; what is removed is gone.
  await page.mouse.move(0, 0);
  const before = await middle(step('2h'));
  await page.mouse.move(before.x, before.y);
  await page.mouse.down();
  await page.mouse.move(before.x + 300, before.y - 30, { steps: 8 });
  await page.mouse.up();
  await eventually(async () => expect(await middle(step('2h'))).toEqual(before));
  await expectDisabled(page.getByRole('button', { name: 'Save' }));
  await step('End here').click();
  await form('End here').getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('button', { name: 'Save' }).click();
  await eventually(async () => expect(await savedSteps(name)).toHaveLength(1));
  expect(await savedSteps(name)).toMatchObject([split]);
  // The list is the same model.
  await page.getByText('List', { exact: true }).click();
  await page.getByRole('group', { name: 'Step 1: Split by chance' }).waitFor();
  await page.waitForURL(/view=list/);
  expect(said).toEqual([]);
  expectNoComplaints(context);
});

/** Tabs on until what has the focus is called so. */
async function tabTo(name: RegExp, key: 'Tab' | 'Shift+Tab' = 'Tab'): Promise<void> {
  for (let presses = 0; presses < 150; presses++) {
    await page.keyboard.press(key);
    const called = await page.evaluate(() => {
      const element = document.activeElement;
      const label =
        element instanceof HTMLInputElement || element instanceof HTMLSelectElement
          ? element.labels?.[0]?.textContent
          : null;
      return element?.getAttribute('aria-label') ?? label ?? element?.textContent ?? '';
    });
    if (name.test(called)) return;
  }
  throw new Error(`${String(name)} is not reached by ${key}`);
}

async function add(kind: string, back: boolean): Promise<void> {
  await tabTo(/^Kind of step/, back ? 'Shift+Tab' : 'Tab');
  await page.keyboard.type(kind);
  await tabTo(/^Add a step$/);
  await page.keyboard.press('Enter');
  await form(kind).waitFor();
}

/** What a screen reader was told last. */
async function expectTold(text: string): Promise<void> {
  await eventually(async () => expect(await page.getByRole('status').allInnerTexts()).toContain(text));
}

test('an automation is built on the canvas, by keyboard alone', async () => {
  const name = unique('By keys');
  await open(page, 'automations/new?view=canvas');
  await tabTo(/^Name/);
  await page.keyboard.type(name);
  await tabTo(/^Event/);
  await page.keyboard.type('signed_up');
  await add('Split by chance', false);
  await expectTold('Split by chance is open.');
  await page.keyboard.press('Escape');
  await eventually(async () =>
    expect(await page.evaluate(() => document.activeElement?.className)).toBe('canvas-step'),
  );

  await add('Wait', true);
  await tabTo(/^For, such as/);
  await page.keyboard.press('Control+A');
  await page.keyboard.type('3h');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Alt+ArrowRight');
  await expectTold('Wait is moved: Step 1 of 1 in “Way 1: weight 50” of “Split by chance”.');
  await page.keyboard.press('Alt+ArrowRight');
  await expectTold('Wait is moved: Step 1 of 1 in “Way 2: weight 50” of “Split by chance”.');
  await page.keyboard.press('Alt+ArrowDown');
  await expectTold('It stays where it is: there is no place to move it to.');

  await add('End here', true);
  await page.keyboard.press('Escape');
  await page.keyboard.press('Alt+ArrowUp');
  await expectTold('End here is moved: Step 1 of 2.');
  await page.keyboard.press('Delete');
  await expectTold('End here is removed.');
  // The focus is where it stood, where the next one can be put.
  await eventually(async () =>
    expect(await page.evaluate(() => document.activeElement?.className)).toBe('canvas-spot'),
  );
  await page.keyboard.press('Enter');
  await form('End here').waitFor();
  await tabTo(/^Move down$/);
  await page.keyboard.press('Enter');
  await expectTold('End here is moved: Step 2 of 2.');
  await tabTo(/^Move into the step above$/);
  await page.keyboard.press('Enter');
  await expectTold('End here is moved: Step 1 of 1 in “Way 1: weight 50” of “Split by chance”.');
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
  expect(said).toEqual([]);
  expectNoComplaints(context);
});

test('a step that stays asks for no focus later, and the form that is open stays as it is', async () => {
  const name = unique('Held');
  const steps = [{ type: 'WAIT', delay: 7_200 }, { type: 'TRACK_EVENT', event: 'reminded' }, { type: 'EXIT' }];
  const { id } = await call<Saved>('POST', '/automations', { name, triggerType: 'EVENT', triggerEvent: 'x', steps });
  await open(page, `automations/${id}?view=canvas`);
  await step('End here').focus();
  for (let presses = 0; presses < 2; presses++) {
    await page.keyboard.press('Alt+ArrowDown');
    await expectTold('It stays where it is: there is no place to move it to.');
  }
  const field = page.getByLabel('Name');
  await field.press('End');
  await field.pressSequentially(' typed');
  await expectValue(field, `${name} typed`);

  // What goes before it and is saved leaves the form of a step where it is.
  await step('reminded').click();
  await form('Record an event').getByLabel('Event').fill('asked');
  await step('2h').press('Delete');
  await expectTold('Wait is removed.');
  expect(await press(page, 'Save')).toBe(200);
  await page.locator('button:disabled:not([data-loading])', { hasText: /^Save$/ }).waitFor();
  expect(await savedSteps(`${name} typed`)).toMatchObject([{ type: 'TRACK_EVENT', event: 'asked' }, { type: 'EXIT' }]);
  await expectValue(form('Record an event').getByLabel('Event'), 'asked');
  expect(await page.evaluate(() => document.activeElement?.className)).not.toContain('canvas-panel');
  expect(said).toEqual([]);
  expectNoComplaints(context);
});

test('the numbers stand on the steps, and a form is open to everybody', async () => {
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
  for (const [who, plan] of [
    ['p1', 'pro'],
    ['p2', 'pro'],
    ['f1', 'free'],
  ] as const) {
    await call('POST', '/users/identify', { user_id: name + who, properties: { plan } });
    await call('POST', '/events', { event: name, user_id: name + who }, product.publicKey);
  }
  await open(page, `automations/${id}?view=canvas`);
  await step('Branch by rules').getByText('3 came').waitFor({ timeout: 30_000 });
  await step('30d').getByText('2 came, 2 wait').waitFor({ timeout: 30_000 });
  await page.getByText('Way 1: 1 rule · 2').waitFor();
  await step('30d').click();
  await form('Wait').waitFor();
  await expectAccessible(page, 'canvas with a form');
  await turnDark(page);
  await expectAccessible(page, 'canvas with a form, dark');
  await picture(page, 'act-canvas-numbers');
  // On a phone the list is what is seen first, and the canvas is there for who asks.
  await page.setViewportSize({ width: 390, height: 844 });
  await open(page, `automations/${id}`);
  await page.getByRole('group', { name: 'Step 1: Branch by rules' }).waitFor();
  await expectCount(page.locator('.canvas'), 0);
  await page.getByText('Canvas', { exact: true }).click();
  await step('Branch by rules').waitFor();
  await page.waitForURL(/view=canvas/);
  expect(said).toEqual([]);
  expectNoComplaints(context);
});
