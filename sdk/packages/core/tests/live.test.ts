import { expect, test } from 'vitest';
import type { StreamReader } from '../src/follow';
import { type InboxChange, followInbox } from '../src/live';
import { FakeDevice, settle } from './fake-device';

/** Returns the requested streams and a function that opens them. */
function fakeStreams() {
  const streams: Array<{ url: URL; headers: Record<string, string>; reader: StreamReader; open: boolean }> = [];
  const open = (url: string, headers: Record<string, string>, reader: StreamReader) => {
    const stream = { url: new URL(url), headers, reader, open: true };
    streams.push(stream);
    return () => void (stream.open = false);
  };
  return { streams, open };
}

const message = (id: string, title: string) => `id: ${id}\nevent: message\ndata: {"id":"${id}","title":"${title}"}\n\n`;

function following() {
  const device = new FakeDevice();
  const client = device.start();
  client.identify('a&b', {}, { userHash: 'h' });
  const changes: InboxChange[] = [];
  const { streams, open } = fakeStreams();
  const stop = followInbox(client, (change) => void changes.push(change), open);
  return { device, client, changes, streams, stop };
}

test('changes are reported however the stream is split, and the next stream continues after the last one', async () => {
  const { device, changes, streams } = following();
  expect([streams[0]!.url.pathname, streams[0]!.url.search]).toEqual(['/api/v1/inbox/stream', '?user_id=a%26b']);
  // URLs must not contain the proof, as they are logged.
  expect(streams[0]!.headers).toEqual({ 'x-api-key': 'pk_live_x', 'x-user-hash': 'h' });
  const text = `retry: 2000\n\n: heartbeat\n\nevent: unread\ndata: {"unread":2}\n\n${message('m1', 'Hi')}${message('m2', 'Ü')}event: message\ndata: broken\n\n`;
  for (const letter of text) streams[0]!.reader.text(letter);
  expect(changes).toEqual([
    { type: 'unread', unread: 2 },
    { type: 'message', item: { id: 'm1', title: 'Hi' } },
    { type: 'message', item: { id: 'm2', title: 'Ü' } },
  ]);
  streams[0]!.reader.end(200, null);
  await device.pass(1_900);
  expect(streams).toHaveLength(1);
  await device.pass(2_200);
  expect(streams[1]!.url.searchParams.get('cursor')).toBe('m2');
});

test('the start of a stream is kept: a page hidden before the first message misses nothing', async () => {
  const { device, client, changes, streams } = following();
  streams[0]!.reader.text('id: b0\nretry: 2000\n\nevent: unread\ndata: {"unread":0}\n\n: heartbeat\n\n');
  expect(changes).toEqual([{ type: 'unread', unread: 0 }]);
  device.hide();
  device.show();
  expect(streams[1]!.url.searchParams.get('cursor')).toBe('b0');
  // The connection is lost before the first event: the cursor stays the same.
  streams[1]!.reader.end(0, null);
  await device.pass(4_000);
  expect(streams[2]!.url.searchParams.get('cursor')).toBe('b0');
  // Another inbox has its own cursor.
  client.identify('bob');
  expect(streams[3]!.url.searchParams.get('cursor')).toBeNull();
});

test('a lost connection and an overloaded gateway are retried; a rejection only with another proof', async () => {
  const { device, client, changes, streams } = following();
  streams[0]!.reader.end(0, null);
  await device.pass(4_000);
  streams[1]!.reader.end(429, '30');
  await device.pass(29_000);
  expect(streams).toHaveLength(2);
  await device.pass(1_000);
  streams[2]!.reader.end(403, null);
  await device.pass(3_600_000);
  expect([streams.length, changes]).toEqual([3, [{ type: 'unread', unread: 0 }]]);
  client.identify('a&b', {}, { userHash: 'right' });
  await settle();
  expect(streams[3]!.headers['x-user-hash']).toBe('right');
});

test('follows only while the page is visible and a user is identified, until it is stopped', async () => {
  const { device, client, changes, streams, stop } = following();
  streams[0]!.reader.text(message('m1', 'Hi'));
  device.hide();
  expect(streams[0]!.open).toBe(false);
  await device.pass(60_000);
  device.show();
  expect(streams[1]!.url.searchParams.get('cursor')).toBe('m1');

  client.identify('bob');
  expect([streams[1]!.open, streams[2]!.url.search]).toEqual([false, '?user_id=bob']);
  // The unread count of another user is not known yet.
  expect(changes.at(-1)).toEqual({ type: 'unread', unread: 0 });
  changes.length = 0;
  void client.reset();
  await device.pass(0);
  expect([streams[2]!.open, streams.length, changes]).toEqual([false, 3, [{ type: 'unread', unread: 0 }]]);

  client.identify('cid');
  expect(streams).toHaveLength(4);
  stop();
  expect(streams[3]!.open).toBe(false);
  client.identify('dan');
  device.online();
  await device.pass(60_000);
  expect(streams).toHaveLength(4);
});

test('no stream is opened while the page is hidden, also after another user logs in', async () => {
  const { device, client, streams } = following();
  device.hide();
  client.identify('bob');
  device.online();
  await device.pass(60_000);
  expect(streams).toHaveLength(1);
  device.show();
  expect(streams[1]!.url.search).toBe('?user_id=bob');
});

test('a response of 200 that is no stream is retried less and less often', async () => {
  const { device, streams } = following();
  for (let end = 0; end < 600; end++) {
    streams
      .filter(({ reader }) => reader)
      .forEach((stream) => {
        const { reader } = stream;
        stream.reader = undefined as never;
        reader.text('<title>Sign in</title>\n\n');
        reader.end(200, null);
      });
    await device.pass(10_000);
  }
  // One every four seconds would be 1,500.
  expect(streams.length).toBeLessThan(200);
});

test('Unicode line and paragraph separators in a text do not end a line', () => {
  const { changes, streams } = following();
  streams[0]!.reader.text(message('m1', 'a\u2028id: b\u2029c'));
  expect(changes).toEqual([{ type: 'message', item: { id: 'm1', title: 'a\u2028id: b\u2029c' } }]);
});

test('a listener that throws does not stop the stream', () => {
  const device = new FakeDevice();
  const client = device.start();
  client.identify('ada');
  const { streams, open } = fakeStreams();
  let calls = 0;
  followInbox(
    client,
    () => {
      calls++;
      throw new Error('the host’s');
    },
    open,
  );
  streams[0]!.reader.text(message('1', 'a') + message('2', 'b'));
  expect(calls).toBe(2);
  client.dispose();
  expect(streams[0]!.open).toBe(false);
});
