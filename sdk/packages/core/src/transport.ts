import type { Answer } from './platform';
import { retryAfter } from './backoff';
import { parsed } from './json';

/** What an answer means for the items that were sent. */
export interface Verdict {
  /**
   * The server has them; or one of them is the matter, or they are too many: in halves; or later; or nothing goes through with
   * this key.
   */
  kind: 'taken' | 'halve' | 'later' | 'stop';
  /** What the server said. */
  body?: { errors?: unknown; details?: unknown; message?: unknown };
  /** Of the answer; missing where there was none. */
  status?: number;
  /** The user's token that was sent. */
  token?: string;
  /** Milliseconds that it asks for until the next try. */
  after?: number;
}

/**
 * Judges an answer. Only what the API itself says counts as taken, or as refused: a hotel's login page answers 200, and a
 * firewall 403. Too large it may be for a proxy, too.
 */
export async function judge(answer: Answer, now: number): Promise<Verdict> {
  const { status } = answer;
  const body = parsed<{ status: unknown; processed: unknown; errors: unknown; details: unknown; message: unknown }>(
    await answer.text(),
  );
  const own = body?.status === status;
  let kind: Verdict['kind'] = 'later';
  if (status >= 200 && status < 300) {
    if (typeof body?.processed === 'number') kind = 'taken';
  } else if (own && (status === 401 || status === 403)) kind = 'stop';
  else if (status === 413 || (own && (status === 400 || status === 422))) kind = 'halve';
  return { kind, body, status, after: retryAfter(answer.headers.get('retry-after'), now) };
}
