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

/** Judges an answer. Only what the API itself says counts as taken: a hotel's login page answers 200, too. */
export async function judge(answer: Answer, now: number): Promise<Verdict> {
  const { status } = answer;
  if (status >= 200 && status < 300) {
    const body = parsed<{ processed: unknown; errors: unknown }>(await answer.text());
    if (!body || typeof body.processed !== 'number') return { kind: 'later' };
    return { kind: 'taken', errors: Number(body.errors) || 0, body };
  }
  if (status === 401 || status === 403) return { kind: 'stop' };
  if (status === 400 || status === 413 || status === 422) return { kind: 'halve' };
  return { kind: 'later', after: retryAfter(answer.headers.get('retry-after'), now) };
}
