import { ApiFailure, failureOf } from '../api/failure';
import type { components } from '../api/schema.gen';

type Session = components['responses']['Session']['content']['application/json'];
export type Membership = components['schemas']['Membership'];

/** Who is signed in. The session itself is a cookie that scripts cannot read; nothing of it is stored. */
export interface SessionState {
  /** Undefined as long as nobody has asked. */
  user: Session['user'] | null | undefined;
  projects: Membership[];
  csrfToken: string | null;
  /** It ended while somebody was at work. */
  expired: boolean;
}

let state: SessionState = { user: undefined, projects: [], csrfToken: null, expired: false };
const listeners = new Set<() => void>();
/** Requests that wait until somebody has signed in again. */
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
  let answer: Response;
  try {
    answer = await fetch(`/api/v1${path}`, {
      method: body ? 'POST' : 'GET',
      headers,
      body: body ? JSON.stringify(body) : undefined,
    });
  } catch {
    throw new ApiFailure(0, 'The server cannot be reached. Nothing you entered is lost: try again.');
  }
  const told: unknown = await answer.json().catch(() => null);
  if (!answer.ok) throw failureOf(answer.status, told, answer.headers.get('retry-after'));
  return told;
}

function begin(told: unknown): void {
  const { user, projects, csrfToken } = told as Session;
  set({ user, projects, csrfToken, expired: false });
  waiting?.resolve();
  waiting = null;
}

/** Finds out who is signed in, if anybody is. */
export async function findSession(): Promise<SessionState> {
  try {
    begin(await call('/auth/session'));
  } catch (failure) {
    if (!(failure instanceof ApiFailure) || failure.status !== 401) throw failure;
    set({ user: null, projects: [], csrfToken: null });
  }
  return state;
}

/** A project that was just made, by whoever is signed in. */
export function joined(project: Membership): void {
  set({ projects: [...state.projects.filter(({ id }) => id !== project.id), project] });
}

export async function signIn(email: string, password: string): Promise<void> {
  const before = state.user;
  const told = await call('/auth/login', { email, password });
  // What is on the screen belongs to somebody else.
  if (state.expired && before && before.id !== (told as Session).user.id) return location.assign('/');
  begin(told);
}

export async function acceptInvite(token: string, name: string, password: string): Promise<void> {
  begin(await call('/auth/invites/accept', { token, name, password }));
}

export async function signOut(): Promise<void> {
  await call('/auth/logout', {}).catch((failure: unknown) => {
    if (!(failure instanceof ApiFailure) || failure.status !== 401) throw failure;
  });
  // A new page: nothing of the account stays in memory.
  location.assign('/sign-in');
}

/** The session has ended: asks for the password, and returns when there is a new one. */
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

/** Whether there is another token than the one that was refused; where another account has signed in, it is asked for first. */
export async function refreshToken(refused: string | null): Promise<boolean> {
  if (state.csrfToken !== refused) return true;
  const told = await call('/auth/session').catch(() => null);
  if (told === null || (told as Session).csrfToken === refused) return false;
  // Another tab is somebody else's now. What is on the screen here is not theirs to save.
  if (state.user && state.user.id !== (told as Session).user.id) await signInAgain();
  else begin(told);
  return true;
}
