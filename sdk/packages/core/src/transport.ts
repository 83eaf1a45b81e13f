import type { Answer } from './platform';
import { retryAfter } from './backoff';
import { parsed } from './json';

/** What an answer means for the items that were sent. */
export type Verdict =
  /** The server has them. */
  | { kind: 'taken'; errors: number; body: unknown }
  /** One of them is the matter, or they are too many: in halves. */
  | { kind: 'halve' }
  /** Later; the server may have said when. */
  | { kind: 'later'; after?: number }
  /** Nothing goes through with this key. */
  | { kind: 'stop' };

/**
 * Judges an answer. Only what the API itself says counts as taken, or as refused: a hotel's login page answers 200, and a
 * firewall 403. Too large it may be for a proxy, too.
 */
export async function judge(answer: Answer, now: number): Promise<Verdict> {
  const { status } = answer;
  const body = parsed<{ status: unknown; processed: unknown; errors: unknown }>(await answer.text());
  if (status >= 200 && status < 300) {
    return typeof body?.processed === 'number' ? { kind: 'taken', errors: Number(body.errors) || 0, body } : { kind: 'later' };
  }
  const own = body?.status === status;
  if (own && (status === 401 || status === 403)) return { kind: 'stop' };
  if (status === 413 || (own && (status === 400 || status === 422))) return { kind: 'halve' };
  return { kind: 'later', after: retryAfter(answer.headers.get('retry-after'), now) };
}
