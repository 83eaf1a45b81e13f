import { type Item, judge } from '@rekindle/core';
import { type Remembered, keep, pending, recall } from './memory';

/** Maximum reports in one request. */
const BATCH = 100;
const WEEK = 604_800_000;

/** Stores an event of a message, and sends it with all pending reports. */
export async function report(id: string, event: string, messageId: string): Promise<void> {
  const who = await recall();
  if (!who || who.optedOut) return;
  const { userId, anonymousId, userHash } = who;
  const timestamp = new Date().toISOString();
  const ids = { user_id: userId, anonymous_id: anonymousId, user_hash: userHash };
  await keep({ id, type: 'track', event, timestamp, ...ids, properties: { messageId } });
  await sendReports();
}

/** Sends the pending reports. Those that fail are sent with the next report or by the next page. */
export async function sendReports(): Promise<void> {
  const [who, { reports, forget }] = await Promise.all([recall(), pending()]);
  if (!who || !reports.length) return;
  if (who.optedOut) return forget(reports);
  let max = BATCH;
  try {
    while (reports.length) {
      const batch = reports.slice(0, max);
      const answer = await post(`${who.apiUrl}/events/batch`, who, { sentAt: new Date().toISOString(), batch });
      const { kind, body } = await judge(answer, Date.now());
      if (kind === 'halve' && batch.length > 1) {
        // A rejected report must not prevent sending the others.
        max = Math.ceil(batch.length / 2);
        continue;
      }
      if (kind !== 'accepted' && kind !== 'halve') return;
      if (kind === 'halve' || body?.errors) console.warn('[rekindle]', 'reports were rejected', body);
      const details = (body?.details ?? []) as Array<{ index: number; code?: string }>;
      const unproven = details.map(({ index, code }) => code === 'identity_unproven' && batch[index]);
      // The next page sends these with a new token.
      const kept = (report: Item) =>
        who.userToken && unproven.includes(report) && Date.parse(report.timestamp) > Date.now() - WEEK;
      await forget(reports.splice(0, batch.length).filter((report) => !kept(report)));
      max = BATCH;
    }
  } catch {
    // The reports stay pending.
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
