import type { Answer } from './platform';
import { retryAfter } from './backoff';
import { parsed } from './json';

/** Outcome of a request for the items that were sent. */
export interface Verdict {
  /**
   * `accepted`: the server has the items. `halve`: an item is invalid or the batch is too large; send halves. `later`: retry.
   * `stop`: the key is not accepted.
   */
  kind: 'accepted' | 'halve' | 'later' | 'stop';
  /** Response body. */
  body?: { errors?: unknown; details?: unknown; message?: unknown };
  /** Response status; missing if there was no response. */
  status?: number;
  /** User token that was sent. */
  token?: string;
  /** Milliseconds until the next attempt, if the server set them. */
  after?: number;
}

/**
 * Classifies a response. Only responses from the API itself count as accepted or rejected: a hotel's login page returns 200, and a
 * firewall 403. Proxies can also return 413.
 */
export async function judge(answer: Answer, now: number): Promise<Verdict> {
  const { status } = answer;
  const body = parsed<{ status: unknown; processed: unknown; errors: unknown; details: unknown; message: unknown }>(
    await answer.text(),
  );
  const isFromApi = body?.status === status;
  let kind: Verdict['kind'] = 'later';
  if (status >= 200 && status < 300) {
    if (typeof body?.processed === 'number') kind = 'accepted';
  } else if (isFromApi && (status === 401 || status === 403)) kind = 'stop';
  else if (status === 413 || (isFromApi && (status === 400 || status === 422))) kind = 'halve';
  return { kind, body, status, after: retryAfter(answer.headers.get('retry-after'), now) };
}
