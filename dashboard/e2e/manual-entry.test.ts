import { expect, test } from 'vitest';
import {
  at,
  call,
  eventually,
  expectAccessible,
  expectCount,
  expectDisabled,
  expectNoBrowserErrors,
  expectValue,
  open,
  screenshot,
  settled,
  unique,
  withAdmin,
} from './browser';

const admin = withAdmin();

interface RecordedEvents {
  events: Array<{ eventName: string; userId: string | null; anonymousId: string | null; properties: object }>;
}

const recorded = (userId: string) => call<RecordedEvents>('GET', `/events?user=${userId}`);

test('user is added manually and an event is sent for them', async () => {
  const { page, context } = admin;
  const userId = unique('ada').replace(' ', '-');
  await open(page, 'users');
  await page.getByRole('button', { name: 'Add user' }).click();
  const form = page.getByRole('dialog', { name: 'Add user' });
  await form.getByLabel('User ID').fill(userId);
  await form.getByLabel('Email').fill(`${userId}@example.com`);
  await form.getByLabel('Name').fill('Ada');
  const add = form.getByRole('button', { name: 'Add' });
  await form.getByLabel('Other properties').fill('{"plan":');
  await expectDisabled(add);
  await form.getByLabel('Other properties').fill('{"plan": "pro"}');
  await expectAccessible(page, 'add user');
  await screenshot(page, 'act-add-user');
  await add.click();
  await page.getByRole('heading', { level: 1, name: 'Ada' }).waitFor();
  expect(await call('GET', `/users/${userId}`)).toMatchObject({
    externalId: userId,
    email: `${userId}@example.com`,
    name: 'Ada',
    properties: { plan: 'pro' },
  });

  await page.getByRole('button', { name: 'Send event' }).click();
  const event = page.getByRole('dialog', { name: 'Send event' });
  await event.getByLabel('Event', { exact: false }).fill('signed_up');
  await event.getByLabel('Properties').fill('{"source": "by hand"}');
  await expectAccessible(page, 'send event');
  await screenshot(page, 'act-send-event');
  await event.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('region', { name: 'Events' }).getByText('signed_up').waitFor();
  expect((await recorded(userId)).events).toMatchObject([
    { eventName: 'signed_up', userId, properties: { source: 'by hand' } },
  ]);

  // An existing user is not changed.
  await open(page, 'users');
  await page.getByRole('button', { name: 'Add user' }).click();
  await form.getByLabel('User ID').fill(userId);
  await form.getByLabel('Name').fill('Another');
  await add.click();
  await form.getByText('A user with this ID already exists.').waitFor();
  expect(await call('GET', `/users/${userId}`)).toMatchObject({ name: 'Ada' });
  await page.keyboard.press('Escape');
  await page
    .getByRole('dialog', { name: 'Leave without saving?' })
    .getByRole('button', { name: 'Leave without saving' })
    .click();
  expectNoBrowserErrors(context);
});

test('event sent from the event list appears in it, and errors are shown at their fields', async () => {
  const { page, context } = admin;
  const userId = unique('bo').replace(' ', '-');
  await call('POST', '/users/identify', { user_id: userId, properties: { name: 'Bo' } });
  await eventually(async () => expect(await call('GET', `/users/${userId}`)).toMatchObject({ name: 'Bo' }));
  await open(page, `events?user=${userId}`);
  await page.getByText('No events match these filters.').waitFor();
  await page.getByRole('button', { name: 'Send event' }).click();
  const form = page.getByRole('dialog', { name: 'Send event' });
  await form.getByLabel('Event', { exact: false }).fill('x'.repeat(201));
  await form.getByLabel('User ID').fill(userId);
  await form.getByRole('button', { name: 'Send' }).click();
  await form.getByRole('alert').getByText('must be a string of 1 to 200 characters').waitFor();
  const suggestions = () =>
    form
      .locator('datalist option')
      .evaluateAll((options) => options.map((option) => (option as HTMLOptionElement).value));
  await eventually(async () => expect(await suggestions()).toContain(userId));
  await form.getByLabel('Event', { exact: false }).fill('visited');
  await form.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('region', { name: 'Events' }).getByRole('cell', { name: 'visited' }).waitFor();
  expect((await recorded(userId)).events).toHaveLength(1);
  expectNoBrowserErrors(context);
});

test('event for an anonymous user is sent with the anonymous ID', async () => {
  const { page } = admin;
  const userId = unique('anon').replace(' ', '-');
  await call('POST', '/events', { event: 'app_opened', anonymous_id: userId });
  await eventually(async () => expect((await recorded(userId)).events).toHaveLength(1));
  await open(page, `users/${userId}`);
  await page.getByRole('button', { name: 'Send event' }).click();
  const form = page.getByRole('dialog', { name: 'Send event' });
  await form.getByLabel('Event', { exact: false }).fill('returned');
  await form.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('region', { name: 'Events' }).getByText('returned').waitFor();
  expect((await recorded(userId)).events).toMatchObject([
    { eventName: 'returned', userId: null, anonymousId: userId },
    { eventName: 'app_opened' },
  ]);
});

test('active automation explains how to test it, and the test starts a run', async () => {
  const { page, context } = admin;
  const event = unique('tried').replace(' ', '_');
  const { id } = await call<{ id: string }>('POST', '/automations', {
    name: event,
    triggerType: 'EVENT',
    triggerEvent: event,
    steps: [{ type: 'UPDATE_USER', properties: { tried: true } }],
  });
  const userId = unique('cy').replace(' ', '-');
  await open(page, `automations/${id}`);
  const hint = page.getByRole('region', { name: 'Test this automation:' });
  await page.getByRole('button', { name: 'Activate' }).waitFor();
  await expectCount(hint, 0);
  await page.getByRole('button', { name: 'Activate' }).click();
  await hint.getByText(event).waitFor();
  await hint.getByRole('button', { name: 'Add user' }).click();
  const user = page.getByRole('dialog', { name: 'Add user' });
  await user.getByLabel('User ID').fill(userId);
  await user.getByRole('button', { name: 'Add' }).click();
  await expectCount(user, 0);
  // The form is prefilled with the added user and the trigger event.
  await hint.getByRole('button', { name: 'Send event' }).click();
  const form = page.getByRole('dialog', { name: 'Send event' });
  await expectValue(form.getByLabel('Event', { exact: false }), event);
  await expectValue(form.getByLabel('User ID'), userId);
  await form.getByRole('button', { name: 'Send' }).click();
  await hint.getByText(`Event sent for ${userId}.`).waitFor();
  await eventually(async () =>
    expect(await call('GET', `/users/${userId}`)).toMatchObject({ properties: { tried: true } }),
  );
  await screenshot(page, 'act-try-it');
  await hint.getByRole('link', { name: 'View runs' }).click();
  await page.getByRole('link', { name: userId }).waitFor();
  await page.goto(at(`automations/${id}`));
  await settled(page);
  await page.getByRole('button', { name: 'Pause' }).click();
  await expectCount(hint, 0);
  expectNoBrowserErrors(context);
});
