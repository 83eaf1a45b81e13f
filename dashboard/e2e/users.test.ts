import { expect, test } from 'vitest';
import {
  call,
  eventually,
  expectDisabled,
  expectNoBrowserErrors,
  open,
  screenshot,
  product,
  unique,
  withAdmin,
} from './browser';

const admin = withAdmin();

test('user is deleted after their ID is typed, with all of their data', async () => {
  const { context, page } = admin;
  const userId = unique('gone').replace(' ', '-');
  await call('POST', '/users/identify', {
    user_id: userId,
    properties: { email: `${userId}@example.com`, name: 'Gone' },
  });
  await call('POST', '/events', { event: 'app_opened', user_id: userId });
  await eventually(async () =>
    expect((await call<{ events: unknown[] }>('GET', `/events?user=${userId}`)).events).toHaveLength(1),
  );

  await open(page, `users?search=${userId}`);
  await page
    .getByRole('link', { name: 'Gone' })
    .or(page.getByRole('link', { name: userId }))
    .first()
    .click();
  await page.getByRole('heading', { level: 1, name: 'Gone' }).waitFor();
  await page.getByRole('button', { name: 'Delete user' }).click();
  const dialog = page.getByRole('dialog', { name: 'Delete this user?' });
  const confirm = dialog.getByRole('button', { name: 'Delete user' });
  await dialog.getByText('under all of the user’s IDs').waitFor();
  await expectDisabled(confirm);
  await dialog.getByRole('textbox').fill(userId.slice(1));
  await expectDisabled(confirm);
  await dialog.getByRole('textbox').fill(userId);
  await screenshot(page, 'act-erase');
  await confirm.click();
  await page.getByText('User deleted.').waitFor();
  await page.getByRole('heading', { level: 1, name: 'Users' }).waitFor();

  const status = async (path: string) =>
    (await fetch(`${product.origin}/api/v1${path}`, { headers: { 'x-api-key': product.secretKey } })).status;
  expect(await status(`/users/${userId}`)).toBe(404);
  await eventually(async () =>
    expect((await call<{ events: unknown[] }>('GET', `/events?user=${userId}`)).events).toEqual([]),
  );
  await open(page, `users?search=${userId}`);
  await page.getByText('No users match this search.').waitFor();
  expectNoBrowserErrors(context);
});

test('deleting a user keeps another user whose user ID equals the internal ID', async () => {
  const { context, page } = admin;
  const userId = unique('shadowed').replace(' ', '-');
  const { user } = await call<{ user: { id: string } }>('POST', '/users/identify', {
    user_id: userId,
    properties: { name: 'Shadowed' },
  });
  await call('POST', '/users/identify', { user_id: user.id, properties: { name: 'Shadow' } });
  const shadow = `/users/${user.id}?idType=external`;
  await eventually(async () => expect(await call('GET', shadow)).toMatchObject({ name: 'Shadow' }));

  await open(page, `users/${userId}`);
  await page.getByRole('heading', { level: 1, name: 'Shadowed' }).waitFor();
  await page.getByRole('button', { name: 'Delete user' }).click();
  const dialog = page.getByRole('dialog', { name: 'Delete this user?' });
  await dialog.getByRole('textbox').fill(userId);
  await dialog.getByRole('button', { name: 'Delete user' }).click();
  await page.getByText('User deleted.').waitFor();

  const answer = await fetch(`${product.origin}/api/v1/users/${userId}`, {
    headers: { 'x-api-key': product.secretKey },
  });
  expect(answer.status).toBe(404);
  expect(await call('GET', shadow)).toMatchObject({ externalId: user.id, name: 'Shadow' });
  expectNoBrowserErrors(context);
});
