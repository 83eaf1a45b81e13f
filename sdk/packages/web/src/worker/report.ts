import { type Item, judge } from '@rekindle/core';
import { type Remembered, keep, pending, recall } from './memory';

/** Reports in one request at most. */
const BATCH = 100;
const WEEK = 604_800_000;

/** Keeps what happened to a message, and sends it with all that could not be sent before. */
export async function report(id: string, event: string, messageId: string): Promise<void> {
  const who = await recall();
  if (!who || who.optedOut) return;
  const { userId, anonymousId, userHash } = who;
  const timestamp = new Date().toISOString();
  const ids = { user_id: userId, anonymous_id: anonymousId, user_hash: userHash };
  await keep({ id, type: 'track', event, timestamp, ...ids, properties: { messageId } });
  await sendReports();
}

/** Sends the reports that wait. What finds no network stays for the next one, or for the next page. */
export async function sendReports(): Promise<void> {
  const [who, { reports, forget }] = await Promise.all([recall(), pending()]);
  if (!who || !reports.length) return;
  if (who.optedOut) return forget(reports);
  let most = BATCH;
  try {
    while (reports.length) {
      const batch = reports.slice(0, most);
      const answer = await post(`${who.apiUrl}/events/batch`, who, { sentAt: new Date().toISOString(), batch });
      const { kind, body } = await judge(answer, Date.now());
      if (kind === 'halve' && batch.length > 1) {
        // One of them is refused: it must not cost the others.
        most = Math.ceil(batch.length / 2);
        continue;
      }
      if (kind !== 'taken' && kind !== 'halve') return;
      if (kind === 'halve' || body?.errors) console.warn('[rekindle]', 'reports were refused', body);
      const details = (body?.details ?? []) as Array<{ index: number; code?: string }>;
      const unproven = details.map(({ index, code }) => code === 'identity_unproven' && batch[index]);
      // The next page sends those with a fresh token.
      const kept = (report: Item) =>
        who.userToken && unproven.includes(report) && Date.parse(report.timestamp) > Date.now() - WEEK;
      await forget(reports.splice(0, batch.length).filter((report) => !kept(report)));
      most = BATCH;
    }
  } catch {
    // As above.
  }
}

export function post(url: string, { apiKey, userToken }: Remembered, body: unknown): Promise<Response> {
  const headers = {
    'content-type': 'application/json',
    'x-api-key': apiKey,
    ...(userToken && { 'x-user-token': userToken }),
  };
  return fetch(url, { method: 'POST', headers, body: JSON.stringify(body), credentials: 'omit' });
}
