import createClient from 'openapi-fetch';
import { refreshToken, session, signInAgain } from '../session/session';
import { ApiFailure, failureOf } from './failure';
import type { components, paths } from './schema.gen';

export type Schemas = components['schemas'];

const UNSAFE = new Set(['POST', 'PUT', 'DELETE', 'PATCH']);
let project: string | null = null;

/** From now on requests are about this project. */
export function workOn(projectId: string | null): void {
  project = projectId;
}

/**
 * Sends a request with the session's token. When the session has ended, its user signs in again and the same request
 * goes once more; when another tab has begun a new one, so does the request, under the new token.
 */
async function send(request: Request): Promise<Response> {
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

const client = createClient<paths>({ baseUrl: '/api/v1', fetch: send });
client.use({
  onRequest({ request }) {
    if (project !== null) request.headers.set('x-project-id', project);
    return request;
  },
});

/** The API, by its own document. Every call goes through {@link read}. */
export const api = client;

/** What a call answered; an {@link ApiFailure} is thrown for whatever else comes of it. */
export async function read<T>(call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  let answer: { data?: T; error?: unknown; response: Response };
  try {
    answer = await call;
  } catch (cause) {
    if (cause instanceof ApiFailure) throw cause;
    if (cause instanceof DOMException && cause.name === 'AbortError') throw cause;
    throw new ApiFailure(0, 'The server cannot be reached. Nothing you entered is lost: try again.');
  }
  if (!answer.response.ok) throw failureOf(answer.response.status, answer.error, answer.response.headers.get('retry-after'));
  return answer.data as T;
}
