import { judge } from '@rekindle/core';
import { keep, pending, recall } from './memory';

/** Reports in one request at most. */
const BATCH = 100;

/** Keeps what happened to a message, and sends it with all that could not be sent before. */
export async function report(id: string, event: string, messageId: string): Promise<void> {
  const who = await recall();
  if (!who || who.optedOut) return;
  const { userId, anonymousId, userHash } = who;
  const timestamp = new Date().toISOString();
  const ids = { user_id: userId, anonymous_id: anonymousId, user_hash: userHash };
  await keep({ id, type: 'track', event, timestamp, ...ids, properties: { messageId } } as { id: string });
  await sendReports();
}

/** Sends the reports that wait. They have their ids: what both page and worker send is recorded once. */
export async function sendReports(): Promise<void> {
  const [who, { reports, forget }] = await Promise.all([recall(), pending()]);
  if (!who || !reports.length) return;
  if (who.optedOut) return forget(reports);
  let most = BATCH;
  try {
    while (reports.length) {
      const batch = reports.slice(0, most);
      const answer = await post(`${who.apiUrl}/events/batch`, who.apiKey, { sentAt: new Date().toISOString(), batch });
      const { kind, body } = await judge(answer, Date.now());
      if (kind === 'halve' && batch.length > 1) {
        // One of them is refused: it must not cost the others.
        most = Math.ceil(batch.length / 2);
        continue;
      }
      if (kind !== 'taken' && kind !== 'halve') return;
      if (kind === 'halve' || body?.errors) console.warn('[rekindle]', 'reports were refused', body);
      await forget(reports.splice(0, batch.length));
      most = BATCH;
    }
  } catch {
    // The network is away: with the next one, or with the next page.
  }
}

export function post(url: string, apiKey: string, body: unknown): Promise<Response> {
  const headers = { 'content-type': 'application/json', 'x-api-key': apiKey };
  return fetch(url, { method: 'POST', headers, body: JSON.stringify(body), credentials: 'omit' });
}
