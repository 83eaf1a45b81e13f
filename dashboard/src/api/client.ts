import createClient from 'openapi-fetch';
import { refreshToken, session, signInAgain } from '../session/session';
import { t } from '../text';
import { ApiFailure, failureOf } from './failure';
import type { components, paths } from './schema.gen';
import { Unanswered } from './unanswered';

export type Schemas = components['schemas'];

const UNSAFE = new Set(['POST', 'PUT', 'DELETE', 'PATCH']);
/** A proxy returns these if the API did not respond in time, so the outcome of the request is unknown. */
const UNKNOWN_OUTCOME = new Set([502, 503, 504]);
const unanswered = new Unanswered();
let project: string | null = null;

/** Sets the project that later requests of {@link api} refer to. */
export function setCurrentProject(projectId: string | null): void {
  project = projectId;
}

/** Sends a request. A repeated POST reuses the `Idempotency-Key` of an identical one without a response, so it takes effect once. */
async function send(request: Request): Promise<Response> {
  if (request.method !== 'POST') return deliver(request);
  const target = `${request.headers.get('x-project-id')} ${request.url}`;
  const key = unanswered.keyOf(target, await request.clone().text());
  request.headers.set('idempotency-key', key);
  const response = await deliver(request);
  if (!UNKNOWN_OUTCOME.has(response.status)) unanswered.answered(target, key);
  return response;
}

/**
 * Sends a request with the session's CSRF token. If the session has ended, it repeats the request after the user has signed in
 * again. If another tab has started a new session, it repeats the request with the new token.
 */
async function deliver(request: Request): Promise<Response> {
  let renewed = false;
  for (;;) {
    const attempt = request.clone();
    const token = session.get().csrfToken;
    if (UNSAFE.has(request.method) && token) attempt.headers.set('x-csrf-token', token);
    const response = await fetch(attempt);
    if (response.status === 401) {
      await signInAgain();
    } else if (response.status === 403 && UNSAFE.has(request.method) && !renewed && (await refreshToken(token))) {
      renewed = true;
    } else {
      return response;
    }
  }
}

function clientFor(currentProject: () => string | null) {
  const client = createClient<paths>({ baseUrl: '/api/v1', fetch: send });
  client.use({
    onRequest({ request }) {
      const projectId = currentProject();
      if (projectId !== null) request.headers.set('x-project-id', projectId);
      return request;
    },
  });
  return client;
}

/** Typed API client for the current project. Pass every call to {@link read}. */
export const api = clientFor(() => project);

const bound = new Map<string, typeof api>();

/** Returns a client for one project, for operations of several requests: the current project may change in between. */
export function apiFor(projectId: string): typeof api {
  const client = bound.get(projectId) ?? clientFor(() => projectId);
  bound.set(projectId, client);
  return client;
}

type Call<T> = Promise<{ data?: T; error?: unknown; response: Response }>;

/** A record and its entity tag. */
export interface Tagged<T> {
  value: T;
  tag: string | null;
}

/** Returns the body of a successful response; throws an {@link ApiFailure} otherwise. */
export async function read<T>(call: Call<T>): Promise<T> {
  return (await readTagged(call)).value;
}

/** Returns an `If-Match` header, so that a record is changed only if it still has this tag; none for a null tag. */
export function ifMatch(tag: string | null): { 'If-Match'?: string } {
  return tag === null ? {} : { 'If-Match': tag };
}

/** Like {@link read}, and returns the entity tag for `If-Match`. */
export async function readTagged<T>(call: Call<T>): Promise<Tagged<T>> {
  let result: Awaited<Call<T>>;
  try {
    result = await call;
  } catch (cause) {
    if (cause instanceof ApiFailure) throw cause;
    if (cause instanceof DOMException && cause.name === 'AbortError') throw cause;
    throw new ApiFailure(0, t.failure.unreachable);
  }
  if (!result.response.ok)
    throw failureOf(result.response.status, result.error, result.response.headers.get('retry-after'));
  // A compressing proxy marks the tag as weak; it still identifies the same state.
  return { value: result.data as T, tag: result.response.headers.get('etag')?.replace(/^W\//, '') ?? null };
}

/** Whether the requested record exists: false for 404; throws on any other failure. */
export async function isFound(call: Call<unknown>): Promise<boolean> {
  try {
    await read(call);
    return true;
  } catch (failure) {
    if (failure instanceof ApiFailure && failure.status === 404) return false;
    throw failure;
  }
}
