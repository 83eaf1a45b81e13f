import { expect, test } from 'vitest';
import type { Reader } from '../src/follow';
import { type InboxChange, followInbox } from '../src/live';
import { FakeDevice, settle } from './place';

/** Streams that are asked for, and what came of them. */
function streams() {
  const asked: Array<{ url: URL; headers: Record<string, string>; reader: Reader; open: boolean }> = [];
  const open = (url: string, headers: Record<string, string>, reader: Reader) => {
    const stream = { url: new URL(url), headers, reader, open: true };
    asked.push(stream);
    return () => void (stream.open = false);
  };
  return { asked, open };
}

const message = (id: string, title: string) => `id: ${id}\nevent: message\ndata: {"id":"${id}","title":"${title}"}\n\n`;

function following() {
  const device = new FakeDevice();
  const client = device.start();
  client.identify('a&b', {}, { userHash: 'h' });
  const told: InboxChange[] = [];
  const { asked, open } = streams();
  const stop = followInbox(client, (change) => void told.push(change), open);
  return { device, client, told, asked, stop };
}

test('what comes is told, however it is cut into pieces, and the next stream goes on behind it', async () => {
  const { device, told, asked } = following();
  expect([asked[0]!.url.pathname, asked[0]!.url.search]).toEqual(['/api/v1/inbox/stream', '?user_id=a%26b']);
  // The proof is in no address: those are logged.
  expect(asked[0]!.headers).toEqual({ 'x-api-key': 'pk_live_x', 'x-user-hash': 'h' });
  const text = `retry: 2000\n\n: heartbeat\n\nevent: unread\ndata: {"unread":2}\n\n${message('m1', 'Hi')}${message('m2', 'Ü')}event: message\ndata: broken\n\n`;
  for (const letter of text) asked[0]!.reader.text(letter);
  expect(told).toEqual([
    { type: 'unread', unread: 2 },
    { type: 'message', item: { id: 'm1', title: 'Hi' } },
    { type: 'message', item: { id: 'm2', title: 'Ü' } },
  ]);
  asked[0]!.reader.end(200, null);
  await device.pass(1_900);
  expect(asked).toHaveLength(1);
  await device.pass(2_200);
  expect(asked[1]!.url.searchParams.get('cursor')).toBe('m2');
});

test('where a stream begins is kept: who hides before anything came misses nothing either', async () => {
  const { device, client, told, asked } = following();
  asked[0]!.reader.text('id: b0\nretry: 2000\n\nevent: unread\ndata: {"unread":0}\n\n: heartbeat\n\n');
  expect(told).toEqual([{ type: 'unread', unread: 0 }]);
  device.hide();
  device.show();
  expect(asked[1]!.url.searchParams.get('cursor')).toBe('b0');
  // Lost before a word: as before.
  asked[1]!.reader.end(0, null);
  await device.pass(4_000);
  expect(asked[2]!.url.searchParams.get('cursor')).toBe('b0');
  // Another inbox has other places.
  client.identify('bob');
  expect(asked[3]!.url.searchParams.get('cursor')).toBeNull();
});

test('a lost connection and a full gateway are tried again; a refusal is not, until it is proven', async () => {
  const { device, client, told, asked } = following();
  asked[0]!.reader.end(0, null);
  await device.pass(4_000);
  asked[1]!.reader.end(429, '30');
  await device.pass(29_000);
  expect(asked).toHaveLength(2);
  await device.pass(1_000);
  asked[2]!.reader.end(403, null);
  await device.pass(3_600_000);
  expect([asked.length, told]).toEqual([3, [{ type: 'unread', unread: 0 }]]);
  client.identify('a&b', {}, { userHash: 'right' });
  await settle();
  expect(asked[3]!.headers['x-user-hash']).toBe('right');
});

test('only while the page is to be seen, for whoever is identified, and until it is stopped', async () => {
  const { device, client, told, asked, stop } = following();
  asked[0]!.reader.text(message('m1', 'Hi'));
  device.hide();
  expect(asked[0]!.open).toBe(false);
  await device.pass(60_000);
  device.show();
  expect(asked[1]!.url.searchParams.get('cursor')).toBe('m1');

  client.identify('bob');
  expect([asked[1]!.open, asked[2]!.url.search]).toEqual([false, '?user_id=bob']);
  // Of another person nothing is known yet.
  expect(told.at(-1)).toEqual({ type: 'unread', unread: 0 });
  told.length = 0;
  void client.reset();
  await device.pass(0);
  expect([asked[2]!.open, asked.length, told]).toEqual([false, 3, [{ type: 'unread', unread: 0 }]]);

  client.identify('cid');
  expect(asked).toHaveLength(4);
  stop();
  expect(asked[3]!.open).toBe(false);
  client.identify('dan');
  device.online();
  await device.pass(60_000);
  expect(asked).toHaveLength(4);
});

test('nothing is opened while nobody sees it, whoever signs in', async () => {
  const { device, client, asked } = following();
  device.hide();
  client.identify('bob');
  device.online();
  await device.pass(60_000);
  expect(asked).toHaveLength(1);
  device.show();
  expect(asked[1]!.url.search).toBe('?user_id=bob');
});

test('an answer of 200 that is no stream is asked for less and less often', async () => {
  const { device, asked } = following();
  for (let end = 0; end < 600; end++) {
    asked
      .filter(({ reader }) => reader)
      .forEach((stream) => {
        const { reader } = stream;
        stream.reader = undefined as never;
        reader.text('<title>Sign in</title>\n\n');
        reader.end(200, null);
      });
    await device.pass(10_000);
  }
  // Every four seconds these would be 1,500.
  expect(asked.length).toBeLessThan(200);
});

test('separators of lines and paragraphs in a text are text', () => {
  const { told, asked } = following();
  asked[0]!.reader.text(message('m1', 'a\u2028id: b\u2029c'));
  expect(told).toEqual([{ type: 'message', item: { id: 'm1', title: 'a\u2028id: b\u2029c' } }]);
});

test('a listener that fails harms nobody', () => {
  const device = new FakeDevice();
  const client = device.start();
  client.identify('ada');
  const { asked, open } = streams();
  let calls = 0;
  followInbox(
    client,
    () => {
      calls++;
      throw new Error('the host’s');
    },
    open,
  );
  asked[0]!.reader.text(message('1', 'a') + message('2', 'b'));
  expect(calls).toBe(2);
  client.dispose();
  expect(asked[0]!.open).toBe(false);
});
