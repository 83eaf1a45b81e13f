import { backoff, retryAfter } from './backoff';
import type { Client } from './client';
import { type InboxItem, inboxOf } from './content';
import { follow } from './follow';
import { parsed } from './json';

/** What happened in an inbox: a message came, or the number of those not read is another. */
export type InboxChange = { type: 'message'; item: InboxItem } | { type: 'unread'; unread: number };

/** The server ends a stream every few minutes, and asks for two seconds before the next; not everybody at once. */
const pause = () => 2_000 * (1 + Math.random());

/**
 * Tells what happens in the inbox of whoever is identified. Only while the page or app is to be seen: browsers have few
 * connections to one server. What came meanwhile is told when it is seen again. Returns how to stop.
 */
export function followInbox(
  client: Client,
  listener: (change: InboxChange) => void,
  open: typeof follow = follow,
): () => void {
  const { platform, settings, proofs } = client;
  let close: (() => void) | undefined;
  let timer: unknown;
  let whose: string | undefined;
  /** The key and the proof that the stream was asked for with. */
  let headers: Record<string, string> = {};
  /** The last message that came. */
  let cursor: string | undefined;
  let failures = 0;
  /** Whether this stream has said anything: a login page answers 200, too. */
  let heard = false;

  const tell = (change: InboxChange) => {
    try {
      listener(change);
    } catch (error) {
      platform.log('error', 'inbox: your listener failed', error);
    }
  };
  const again = (after: number) => {
    platform.clearTimer(timer);
    timer = platform.setTimer(begin, after);
  };
  const stop = () => {
    platform.clearTimer(timer);
    close?.();
    close = undefined;
  };
  const begin = () => {
    stop();
    const inbox = inboxOf(client);
    const another = whose !== inbox;
    if (another) cursor = undefined;
    const left = another && whose !== undefined;
    whose = inbox;
    headers = proofs.headers();
    if (inbox && !platform.hidden()) listen(inbox);
    // Nobody's inbox has nothing in it, and of another person's nothing is known yet.
    if (!inbox || left) tell({ type: 'unread', unread: 0 });
  };
  const listen = (inbox: string) => {
    let text = '';
    heard = false;
    const place = cursor ? `&cursor=${encodeURIComponent(cursor)}` : '';
    close = open(`${settings.apiUrl}/inbox/stream?${inbox}${place}`, headers, {
      text(part) {
        const blocks = (text + part).split('\n\n');
        text = blocks.pop() ?? '';
        blocks.forEach(read);
      },
      end(status, header) {
        close = undefined;
        if (status === 200 && heard) return again(pause());
        // Refused: until it is somebody else, or proven.
        if (status >= 400 && status < 500 && status !== 408 && status !== 429) {
          const refused = () => {
            platform.log('warn', 'inbox: the server refuses to have it followed', status);
            // Who reads the list now gets the server's words.
            tell({ type: 'unread', unread: 0 });
          };
          if (status !== 403) return refused();
          return void proofs.renew(headers['x-user-token']).then((renewed) => (renewed ? anew() : refused()));
        }
        again(retryAfter(header, platform.now()) ?? Math.max(pause(), backoff(++failures, Math.random)));
      },
    });
  };
  const read = (block: string) => {
    const lines = block.split('\n');
    const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    const data = parsed<InboxItem & { unread: number }>(field('data'));
    cursor = field('id') ?? cursor;
    if (data || field('retry')) {
      heard = true;
      failures = 0;
    }
    if (data?.id) tell({ type: 'message', item: data as InboxItem });
    else if (data && typeof data.unread === 'number') tell({ type: 'unread', unread: data.unread });
  };
  const anew = () => {
    if (inboxOf(client) !== whose || JSON.stringify(proofs.headers()) !== JSON.stringify(headers)) begin();
  };

  const stops = [
    client.on('identify', anew),
    client.on('changed', anew),
    // The person is still known while it is told.
    client.on('reset', () => again(0)),
    client.on('hide', stop),
    client.on('show', begin),
    client.on('online', begin),
    client.on('dispose', stop),
  ];
  begin();
  return () => {
    stops.forEach((each) => each());
    stop();
  };
}

/** As `followInbox`, for a client that may be there later. */
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
