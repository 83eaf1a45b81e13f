import { expect, test } from 'vitest';
import {
  at,
  call,
  eventually,
  expectAccessible,
  expectCount,
  expectDisabled,
  expectNoComplaints,
  expectValue,
  open,
  picture,
  settled,
  unique,
  withAdmin,
} from './browser';

const admin = withAdmin();

interface Recorded {
  events: Array<{ eventName: string; userId: string | null; anonymousId: string | null; properties: object }>;
}

const recorded = (who: string) => call<Recorded>('GET', `/events?user=${who}`);

test('somebody signs up by hand: a person is added, and their event is sent', async () => {
  const { page, context } = admin;
  const who = unique('ada').replace(' ', '-');
  await open(page, 'users');
  await page.getByRole('button', { name: 'Add a person' }).click();
  const form = page.getByRole('dialog', { name: 'Add a person' });
  await form.getByLabel('User id').fill(who);
  await form.getByLabel('Email').fill(`${who}@example.com`);
  await form.getByLabel('Name').fill('Ada');
  const add = form.getByRole('button', { name: 'Add' });
  await form.getByLabel('Other properties').fill('{"plan":');
  await expectDisabled(add);
  await form.getByLabel('Other properties').fill('{"plan": "pro"}');
  await expectAccessible(page, 'add a person');
  await picture(page, 'act-add-person');
  await add.click();
  await page.getByRole('heading', { level: 1, name: 'Ada' }).waitFor();
  expect(await call('GET', `/users/${who}`)).toMatchObject({
    externalId: who,
    email: `${who}@example.com`,
    name: 'Ada',
    properties: { plan: 'pro' },
  });

  await page.getByRole('button', { name: 'Send an event' }).click();
  const event = page.getByRole('dialog', { name: 'Send an event' });
  await event.getByLabel('Event', { exact: false }).fill('signed_up');
  await event.getByLabel('Properties').fill('{"source": "by hand"}');
  await expectAccessible(page, 'send an event');
  await picture(page, 'act-send-event');
  await event.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('region', { name: 'Events' }).getByText('signed_up').waitFor();
  expect((await recorded(who)).events).toMatchObject([
    { eventName: 'signed_up', userId: who, properties: { source: 'by hand' } },
  ]);

  // Somebody who is there already is not changed in passing.
  await open(page, 'users');
  await page.getByRole('button', { name: 'Add a person' }).click();
  await form.getByLabel('User id').fill(who);
  await form.getByLabel('Name').fill('Another');
  await add.click();
  await form.getByText('There is somebody with this id.').waitFor();
  expect(await call('GET', `/users/${who}`)).toMatchObject({ name: 'Ada' });
  await page.keyboard.press('Escape');
  await page
    .getByRole('dialog', { name: 'Leave without saving?' })
    .getByRole('button', { name: 'Leave without saving' })
    .click();
  expectNoComplaints(context);
});

test('an event is sent from the list of events, in which it appears; what is wrong with it is said at its field', async () => {
  const { page, context } = admin;
  const who = unique('bo').replace(' ', '-');
  await call('POST', '/users/identify', { user_id: who, properties: { name: 'Bo' } });
  await eventually(async () => expect(await call('GET', `/users/${who}`)).toMatchObject({ name: 'Bo' }));
  await open(page, `events?user=${who}`);
  await page.getByText('No event matches these filters.').waitFor();
  await page.getByRole('button', { name: 'Send an event' }).click();
  const form = page.getByRole('dialog', { name: 'Send an event' });
  await form.getByLabel('Event', { exact: false }).fill('x'.repeat(201));
  await form.getByLabel('User id').fill(who);
  await form.getByRole('button', { name: 'Send' }).click();
  await form.getByRole('alert').getByText('must be a string of 1 to 200 characters').waitFor();
  const offered = () =>
    form
      .locator('datalist option')
      .evaluateAll((options) => options.map((option) => (option as HTMLOptionElement).value));
  await eventually(async () => expect(await offered()).toContain(who));
  await form.getByLabel('Event', { exact: false }).fill('came_by');
  await form.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('region', { name: 'Events' }).getByRole('cell', { name: 'came_by' }).waitFor();
  expect((await recorded(who)).events).toHaveLength(1);
  expectNoComplaints(context);
});

test('somebody who is only known anonymously is sent an event as such', async () => {
  const { page } = admin;
  const who = unique('anon').replace(' ', '-');
  await call('POST', '/events', { event: 'app_opened', anonymous_id: who });
  await eventually(async () => expect((await recorded(who)).events).toHaveLength(1));
  await open(page, `users/${who}`);
  await page.getByRole('button', { name: 'Send an event' }).click();
  const form = page.getByRole('dialog', { name: 'Send an event' });
  await form.getByLabel('Event', { exact: false }).fill('came_back');
  await form.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('region', { name: 'Events' }).getByText('came_back').waitFor();
  expect((await recorded(who)).events).toMatchObject([
    { eventName: 'came_back', userId: null, anonymousId: who },
    { eventName: 'app_opened' },
  ]);
});

test('an automation that is active says how to try it, and is tried so', async () => {
  const { page, context } = admin;
  const event = unique('tried').replace(' ', '_');
  const { id } = await call<{ id: string }>('POST', '/automations', {
    name: event,
    triggerType: 'EVENT',
    triggerEvent: event,
    steps: [{ type: 'UPDATE_USER', properties: { tried: true } }],
  });
  const who = unique('cy').replace(' ', '-');
  await open(page, `automations/${id}`);
  const hint = page.getByRole('region', { name: 'Try it:' });
  await page.getByRole('button', { name: 'Activate' }).waitFor();
  await expectCount(hint, 0);
  await page.getByRole('button', { name: 'Activate' }).click();
  await hint.getByText(event).waitFor();
  await hint.getByRole('button', { name: 'Add a person' }).click();
  const person = page.getByRole('dialog', { name: 'Add a person' });
  await person.getByLabel('User id').fill(who);
  await person.getByRole('button', { name: 'Add' }).click();
  await expectCount(person, 0);
  // The form that opens is filled in: who was added, and what it starts by.
  await hint.getByRole('button', { name: 'Send an event' }).click();
  const form = page.getByRole('dialog', { name: 'Send an event' });
  await expectValue(form.getByLabel('Event', { exact: false }), event);
  await expectValue(form.getByLabel('User id'), who);
  await form.getByRole('button', { name: 'Send' }).click();
  await hint.getByText(`It is sent for ${who}.`).waitFor();
  await eventually(async () =>
    expect(await call('GET', `/users/${who}`)).toMatchObject({ properties: { tried: true } }),
  );
  await picture(page, 'act-try-it');
  await hint.getByRole('link', { name: 'Their way through' }).click();
  await page.getByRole('link', { name: who }).waitFor();
  await page.goto(at(`automations/${id}`));
  await settled(page);
  await page.getByRole('button', { name: 'Stop' }).click();
  await expectCount(hint, 0);
  expectNoComplaints(context);
});
