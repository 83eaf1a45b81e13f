import { backoff, retryAfter } from './backoff';
import type { Client } from './client';
import { type InboxItem, inboxQuery } from './content';
import { follow } from './follow';
import { parsed } from './json';

/** A change of the inbox: a new message, or a new number of unread messages. */
export type InboxChange = { type: 'message'; item: InboxItem } | { type: 'unread'; unread: number };

/** Delay before reconnecting: the server ends a stream every few minutes and asks for two seconds. With jitter. */
const reconnectDelay = () => 2_000 * (1 + Math.random());

/**
 * Reports changes of the identified user's inbox while the page or app is visible, because browsers limit the connections per server.
 * Changes made meanwhile are reported when it becomes visible again. Returns a function that stops it.
 */
export function followInbox(
  client: Client,
  listener: (change: InboxChange) => void,
  open: typeof follow = follow,
): () => void {
  const { platform, settings, proofs } = client;
  let close: (() => void) | undefined;
  let timer: unknown;
  let current: string | undefined;
  /** API key and proof of the current stream. */
  let headers: Record<string, string> = {};
  /** ID of the last received event. */
  let cursor: string | undefined;
  let failures = 0;
  /** Whether this stream has sent an event: a login page also responds with 200. */
  let received = false;

  const notify = (change: InboxChange) => {
    try {
      listener(change);
    } catch (error) {
      platform.log('error', 'inbox: your listener threw', error);
    }
  };
  const reconnect = (after: number) => {
    platform.clearTimer(timer);
    timer = platform.setTimer(start, after);
  };
  const stop = () => {
    platform.clearTimer(timer);
    close?.();
    close = undefined;
  };
  const start = () => {
    stop();
    const inbox = inboxQuery(client);
    const another = current !== inbox;
    if (another) cursor = undefined;
    const left = another && current !== undefined;
    current = inbox;
    headers = proofs.headers();
    if (inbox && !platform.hidden()) listen(inbox);
    // Without a user the inbox is empty, and another user's count is not known yet.
    if (!inbox || left) notify({ type: 'unread', unread: 0 });
  };
  const listen = (inbox: string) => {
    let text = '';
    received = false;
    const cursorParam = cursor ? `&cursor=${encodeURIComponent(cursor)}` : '';
    close = open(`${settings.apiUrl}/inbox/stream?${inbox}${cursorParam}`, headers, {
      text(part) {
        const blocks = (text + part).split('\n\n');
        text = blocks.pop() ?? '';
        blocks.forEach(read);
      },
      end(status, header) {
        close = undefined;
        if (status === 200 && received) return reconnect(reconnectDelay());
        // Rejected: stops until the user or the proof changes.
        if (status >= 400 && status < 500 && status !== 408 && status !== 429) {
          const refused = () => {
            platform.log('warn', 'inbox: the server rejected the stream', status);
            // Reading the inbox now returns the server's error message.
            notify({ type: 'unread', unread: 0 });
          };
          if (status !== 403) return refused();
          return void proofs
            .renew(headers['x-user-token'])
            .then((renewed) => (renewed ? restartIfChanged() : refused()));
        }
        reconnect(retryAfter(header, platform.now()) ?? Math.max(reconnectDelay(), backoff(++failures, Math.random)));
      },
    });
  };
  const read = (block: string) => {
    const lines = block.split('\n');
    const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    const data = parsed<InboxItem & { unread: number }>(field('data'));
    cursor = field('id') ?? cursor;
    if (data || field('retry')) {
      received = true;
      failures = 0;
    }
    if (data?.id) notify({ type: 'message', item: data as InboxItem });
    else if (data && typeof data.unread === 'number') notify({ type: 'unread', unread: data.unread });
  };
  const restartIfChanged = () => {
    if (inboxQuery(client) !== current || JSON.stringify(proofs.headers()) !== JSON.stringify(headers)) start();
  };

  const stops = [
    client.on('identify', restartIfChanged),
    client.on('changed', restartIfChanged),
    // Delayed, because the user is still known during this event.
    client.on('reset', () => reconnect(0)),
    client.on('hide', stop),
    client.on('show', start),
    client.on('online', start),
    client.on('dispose', stop),
  ];
  start();
  return () => {
    stops.forEach((each) => each());
    stop();
  };
}

/** Like `followInbox`, for a client that may be created later. */
export function followInboxSoon(
  within: (run: (client: Client) => void) => void,
  listener: (change: InboxChange) => void,
): () => void {
  let over = false;
  let stop: (() => void) | undefined;
  within((client) => {
    if (!over) stop = followInbox(client, listener);
  });
  return () => {
    over = true;
    stop?.();
  };
}
