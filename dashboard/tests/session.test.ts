import { beforeEach, describe, expect, test, vi } from 'vitest';

const responseOf = (id: string) => ({
  user: { id, email: `${id}@example.com`, name: id },
  projects: [],
  csrfToken: `token of ${id}`,
});

/** The server's response for the session of the cookie, which all tabs share. */
let sessionResponse: object;

beforeEach(() => {
  vi.resetModules();
  vi.stubGlobal('fetch', () => Promise.resolve(Response.json(sessionResponse)));
});

describe('refused token', () => {
  test('is replaced if the same account has started another session', async () => {
    const { findSession, refreshToken, session } = await import('../src/session/session');
    sessionResponse = responseOf('ada');
    await findSession();
    expect(await refreshToken('token of ada')).toBe(false);
    sessionResponse = { ...responseOf('ada'), csrfToken: 'a new one' };
    expect(await refreshToken('token of ada')).toBe(true);
    expect(session.get()).toMatchObject({ csrfToken: 'a new one', expired: false });
  });

  test('is not replaced by the token of another account; the user must sign in again', async () => {
    const { findSession, refreshToken, session, signIn } = await import('../src/session/session');
    sessionResponse = responseOf('ada');
    await findSession();
    sessionResponse = responseOf('bo');
    let settled = false;
    const renewed = refreshToken('token of ada').then((is) => {
      settled = true;
      return is;
    });
    await vi.waitFor(() => expect(session.get().expired).toBe(true));
    expect(session.get()).toMatchObject({ user: { id: 'ada' }, csrfToken: 'token of ada' });
    expect(settled).toBe(false);
    sessionResponse = { ...responseOf('ada'), csrfToken: 'a new one' };
    await signIn('ada@example.com', 'password');
    expect(await renewed).toBe(true);
    expect(session.get()).toMatchObject({ user: { id: 'ada' }, csrfToken: 'a new one', expired: false });
  });
});
