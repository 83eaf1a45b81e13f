import { expect, test } from 'vitest';
import {
  call,
  eventually,
  expectDisabled,
  expectNoComplaints,
  open,
  picture,
  product,
  unique,
  withAdmin,
} from './browser';

const admin = withAdmin();

test('a person is erased when their id was typed, and nothing of them is found any more', async () => {
  const { context, page } = admin;
  const who = unique('gone').replace(' ', '-');
  await call('POST', '/users/identify', { user_id: who, properties: { email: `${who}@example.com`, name: 'Gone' } });
  await call('POST', '/events', { event: 'app_opened', user_id: who });
  await eventually(async () =>
    expect((await call<{ events: unknown[] }>('GET', `/events?user=${who}`)).events).toHaveLength(1),
  );

  await open(page, `users?search=${who}`);
  await page
    .getByRole('link', { name: 'Gone' })
    .or(page.getByRole('link', { name: who }))
    .first()
    .click();
  await page.getByRole('heading', { level: 1, name: 'Gone' }).waitFor();
  await page.getByRole('button', { name: 'Erase' }).click();
  const question = page.getByRole('dialog', { name: 'Erase this person?' });
  const act = question.getByRole('button', { name: 'Erase' });
  await question.getByText('under all their ids').waitFor();
  await expectDisabled(act);
  await question.getByRole('textbox').fill(who.slice(1));
  await expectDisabled(act);
  await question.getByRole('textbox').fill(who);
  await picture(page, 'act-erase');
  await act.click();
  await page.getByText('The person is erased.').waitFor();
  await page.getByRole('heading', { level: 1, name: 'Users' }).waitFor();

  const status = async (path: string) =>
    (await fetch(`${product.origin}/api/v1${path}`, { headers: { 'x-api-key': product.secretKey } })).status;
  expect(await status(`/users/${who}`)).toBe(404);
  await eventually(async () =>
    expect((await call<{ events: unknown[] }>('GET', `/events?user=${who}`)).events).toEqual([]),
  );
  await open(page, `users?search=${who}`);
  await page.getByText('Nobody matches this search.').waitFor();
  expectNoComplaints(context);
});

test('erasing a person spares the one whose user id is their internal id', async () => {
  const { context, page } = admin;
  const who = unique('shadowed').replace(' ', '-');
  const { user } = await call<{ user: { id: string } }>('POST', '/users/identify', {
    user_id: who,
    properties: { name: 'Shadowed' },
  });
  await call('POST', '/users/identify', { user_id: user.id, properties: { name: 'Shadow' } });
  const shadow = `/users/${user.id}?idType=external`;
  await eventually(async () => expect(await call('GET', shadow)).toMatchObject({ name: 'Shadow' }));

  await open(page, `users/${who}`);
  await page.getByRole('heading', { level: 1, name: 'Shadowed' }).waitFor();
  await page.getByRole('button', { name: 'Erase' }).click();
  const question = page.getByRole('dialog', { name: 'Erase this person?' });
  await question.getByRole('textbox').fill(who);
  await question.getByRole('button', { name: 'Erase' }).click();
  await page.getByText('The person is erased.').waitFor();

  const answer = await fetch(`${product.origin}/api/v1/users/${who}`, { headers: { 'x-api-key': product.secretKey } });
  expect(answer.status).toBe(404);
  expect(await call('GET', shadow)).toMatchObject({ externalId: user.id, name: 'Shadow' });
  expectNoComplaints(context);
});
