import createClient from 'openapi-fetch';
import { refreshToken, session, signInAgain } from '../session/session';
import { ApiFailure, failureOf } from './failure';
import type { components, paths } from './schema.gen';
import { Unanswered } from './unanswered';

export type Schemas = components['schemas'];

const UNSAFE = new Set(['POST', 'PUT', 'DELETE', 'PATCH']);
/** What stands between answers these when the API did not, or not in time. */
const UNDECIDED = new Set([502, 503, 504]);
const unanswered = new Unanswered();
let project: string | null = null;

/** From now on requests are about this project. */
export function workOn(projectId: string | null): void {
  project = projectId;
}

/** Makes nothing twice: a request that was not answered is, when it is made again, the same one. */
async function send(request: Request): Promise<Response> {
  if (request.method !== 'POST') return deliver(request);
  const address = `${request.headers.get('x-project-id')} ${request.url}`;
  const key = unanswered.keyOf(address, await request.clone().text());
  request.headers.set('idempotency-key', key);
  const answer = await deliver(request);
  if (!UNDECIDED.has(answer.status)) unanswered.answered(address, key);
  return answer;
}

/**
 * Sends a request with the session's token. When the session has ended, its user signs in again and the same request
 * goes once more; when another tab has begun a new one, so does the request, under the new token.
 */
async function deliver(request: Request): Promise<Response> {
  let renewed = false;
  for (;;) {
    const attempt = request.clone();
    const token = session.get().csrfToken;
    if (UNSAFE.has(request.method) && token) attempt.headers.set('x-csrf-token', token);
    const answer = await fetch(attempt);
    if (answer.status === 401) {
      await signInAgain();
    } else if (answer.status === 403 && UNSAFE.has(request.method) && !renewed && (await refreshToken(token))) {
      renewed = true;
    } else {
      return answer;
    }
  }
}

function clientFor(of: () => string | null) {
  const client = createClient<paths>({ baseUrl: '/api/v1', fetch: send });
  client.use({
    onRequest({ request }) {
      const projectId = of();
      if (projectId !== null) request.headers.set('x-project-id', projectId);
      return request;
    },
  });
  return client;
}

/** The API, by its own document, for the project on the screen. Every call goes through {@link read}. */
export const api = clientFor(() => project);

const bound = new Map<string, typeof api>();

/** The API for one project, whichever comes on the screen meanwhile: for whatever takes several requests. */
export function apiOf(projectId: string): typeof api {
  const client = bound.get(projectId) ?? clientFor(() => projectId);
  bound.set(projectId, client);
  return client;
}

type Call<T> = Promise<{ data?: T; error?: unknown; response: Response }>;

/** A record, and the tag of the state that it was in. */
export interface Tagged<T> {
  value: T;
  tag: string | null;
}

/** What a call answered; an {@link ApiFailure} is thrown for whatever else comes of it. */
export async function read<T>(call: Call<T>): Promise<T> {
  return (await readTagged(call)).value;
}

/** The header under which a record is only changed where it is still in a state; in none, whatever there is goes. */
export function ifMatch(tag: string | null): { 'If-Match'?: string } {
  return tag === null ? {} : { 'If-Match': tag };
}

/** As {@link read}, with the tag that a change of the record goes under. */
export async function readTagged<T>(call: Call<T>): Promise<Tagged<T>> {
  let answer: Awaited<Call<T>>;
  try {
    answer = await call;
  } catch (cause) {
    if (cause instanceof ApiFailure) throw cause;
    if (cause instanceof DOMException && cause.name === 'AbortError') throw cause;
    throw new ApiFailure(0, 'The server cannot be reached. Nothing you entered is lost: try again.');
  }
  if (!answer.response.ok)
    throw failureOf(answer.response.status, answer.error, answer.response.headers.get('retry-after'));
  // A proxy that compresses makes it weak; it stands for the same state.
  return { value: answer.data as T, tag: answer.response.headers.get('etag')?.replace(/^W\//, '') ?? null };
}

/** Whether what a call asks for is there: false where the API knows nothing of it, and thrown for any other failure. */
export async function isFound(call: Call<unknown>): Promise<boolean> {
  try {
    await read(call);
    return true;
  } catch (failure) {
    if (failure instanceof ApiFailure && failure.status === 404) return false;
    throw failure;
  }
}
