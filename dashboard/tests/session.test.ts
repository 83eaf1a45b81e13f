import { beforeEach, describe, expect, test, vi } from 'vitest';

const of = (id: string) => ({
  user: { id, email: `${id}@example.com`, name: id },
  projects: [],
  csrfToken: `token of ${id}`,
});

/** What the server tells of the cookie's session, which all tabs share. */
let told: object;

beforeEach(() => {
  vi.resetModules();
  vi.stubGlobal('fetch', () => Promise.resolve(Response.json(told)));
});

describe('a token that was refused', () => {
  test('is renewed where the same account has begun another session', async () => {
    const { findSession, refreshToken, session } = await import('../src/session/session');
    told = of('ada');
    await findSession();
    expect(await refreshToken('token of ada')).toBe(false);
    told = { ...of('ada'), csrfToken: 'a new one' };
    expect(await refreshToken('token of ada')).toBe(true);
    expect(session.get()).toMatchObject({ csrfToken: 'a new one', expired: false });
  });

  test('is not replaced by that of another account: its own is asked for', async () => {
    const { findSession, refreshToken, session, signIn } = await import('../src/session/session');
    told = of('ada');
    await findSession();
    told = of('bo');
    let settled = false;
    const renewed = refreshToken('token of ada').then((is) => {
      settled = true;
      return is;
    });
    await vi.waitFor(() => expect(session.get().expired).toBe(true));
    expect(session.get()).toMatchObject({ user: { id: 'ada' }, csrfToken: 'token of ada' });
    expect(settled).toBe(false);
    told = { ...of('ada'), csrfToken: 'a new one' };
    await signIn('ada@example.com', 'password');
    expect(await renewed).toBe(true);
    expect(session.get()).toMatchObject({ user: { id: 'ada' }, csrfToken: 'a new one', expired: false });
  });
});
