import { ApiFailure, failureOf } from '../api/failure';
import type { components } from '../api/schema.gen';
import { t } from '../text';

type Session = components['responses']['Session']['content']['application/json'];
export type Membership = components['schemas']['Membership'];

/** The signed-in account. The session itself is a cookie that scripts cannot read; none of this is stored. */
export interface SessionState {
  /** Undefined until the session has been requested. */
  user: Session['user'] | null | undefined;
  projects: Membership[];
  csrfToken: string | null;
  /** The session ended while the dashboard was in use. */
  expired: boolean;
}

let state: SessionState = { user: undefined, projects: [], csrfToken: null, expired: false };
const listeners = new Set<() => void>();
/** Resolved when the user has signed in again; requests wait for it. */
let waiting: { promise: Promise<void>; resolve: () => void } | null = null;

export const session = {
  get: (): SessionState => state,
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

function set(change: Partial<SessionState>): void {
  state = { ...state, ...change };
  for (const listener of listeners) listener();
}

async function call(path: string, body?: object): Promise<unknown> {
  const headers: Record<string, string> = body ? { 'content-type': 'application/json' } : {};
  if (state.csrfToken) headers['x-csrf-token'] = state.csrfToken;
  let response: Response;
  try {
    response = await fetch(`/api/v1${path}`, {
      method: body ? 'POST' : 'GET',
      headers,
      body: body ? JSON.stringify(body) : undefined,
    });
  } catch {
    throw new ApiFailure(0, t.failure.unreachable);
  }
  const content: unknown = await response.json().catch(() => null);
  if (!response.ok) throw failureOf(response.status, content, response.headers.get('retry-after'));
  return content;
}

function startSession(response: unknown): void {
  const { user, projects, csrfToken } = response as Session;
  set({ user, projects, csrfToken, expired: false });
  waiting?.resolve();
  waiting = null;
}

/** Loads the current session, if there is one. */
export async function findSession(): Promise<SessionState> {
  try {
    startSession(await call('/auth/session'));
  } catch (failure) {
    if (!(failure instanceof ApiFailure) || failure.status !== 401) throw failure;
    set({ user: null, projects: [], csrfToken: null });
  }
  return state;
}

/** Adds a project that the signed-in account has just created. */
export function addProject(project: Membership): void {
  set({ projects: [...state.projects.filter(({ id }) => id !== project.id), project] });
}

export async function signIn(email: string, password: string): Promise<void> {
  const before = state.user;
  const response = await call('/auth/login', { email, password });
  // The screen shows data of another account.
  if (state.expired && before && before.id !== (response as Session).user.id) return location.assign('/');
  startSession(response);
}

export async function acceptInvite(token: string, name: string, password: string): Promise<void> {
  startSession(await call('/auth/invites/accept', { token, name, password }));
}

export async function signOut(): Promise<void> {
  await call('/auth/logout', {}).catch((failure: unknown) => {
    if (!(failure instanceof ApiFailure) || failure.status !== 401) throw failure;
  });
  // Loading a new page clears the account's data from memory.
  location.assign('/sign-in');
}

/** Opens the sign-in dialog because the session has ended; resolves when there is a new session. */
export function signInAgain(): Promise<void> {
  if (!waiting) {
    let resolve = () => {};
    const promise = new Promise<void>((done) => {
      resolve = done;
    });
    waiting = { promise, resolve };
    set({ expired: true });
  }
  return waiting.promise;
}

/** Whether a token other than the refused one is available. If another account has signed in, it asks the user to sign in first. */
export async function refreshToken(refused: string | null): Promise<boolean> {
  if (state.csrfToken !== refused) return true;
  const response = await call('/auth/session').catch(() => null);
  if (response === null || (response as Session).csrfToken === refused) return false;
  // Another account has signed in in another tab. Changes on this screen must not be saved under that account.
  if (state.user && state.user.id !== (response as Session).user.id) await signInAgain();
  else startSession(response);
  return true;
}
