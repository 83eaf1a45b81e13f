// @vitest-environment happy-dom
import { StrictMode, act, useEffect } from 'react';
import { type Root, createRoot } from 'react-dom/client';
import { afterEach, expect, test, vi } from 'vitest';
import { Rekindle } from '../src/index';
import { RekindleProvider, useFeed, useInbox, useRekindle } from '../src/react';

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;
/** An XMLHttpRequest without responses; streams are tested in a browser. */
class SilentRequest {
  open() {}
  setRequestHeader() {}
  send() {}
  abort() {}
}
vi.stubGlobal('XMLHttpRequest', SilentRequest);

const options = { projectId: 'p', apiKey: 'pk_live_x', autoTrackLifecycle: false, autoTrackScreens: false };
let root: Root | undefined;

afterEach(async () => {
  await act(async () => root?.unmount());
  vi.unstubAllGlobals();
  vi.stubGlobal('XMLHttpRequest', SilentRequest);
});

function Shop() {
  const rekindle = useRekindle();
  useEffect(() => rekindle.track('shown'), [rekindle]);
  return <p>{rekindle.getUserId() ?? 'anonymous'}</p>;
}

test('strict mode starts the SDK once, and calls of children before the provider’s start are kept', async () => {
  const warn = vi.spyOn(console, 'warn');
  const bodies: string[] = [];
  vi.stubGlobal('fetch', async (_: string, init: { body: string }) => {
    bodies.push(init.body);
    return new Response('{"processed":1,"errors":0}');
  });
  const client = new Rekindle();
  const container = document.createElement('div');
  root = createRoot(container);
  await act(async () =>
    root!.render(
      <StrictMode>
        <RekindleProvider options={options} client={client}>
          <Shop />
        </RekindleProvider>
      </StrictMode>,
    ),
  );
  await client.flush();
  expect(warn).not.toHaveBeenCalled();
  // Strict mode runs the effects of the app twice.
  expect(bodies.join('').match(/"event":"shown"/g)).toHaveLength(2);
});

test('inbox and feed are loaded and refreshed, and errors are returned as values', async () => {
  let read: string | null = null;
  vi.stubGlobal('fetch', async (url: string, init: { method: string }) => {
    if (url.includes('/feed')) return new Response('{"message":"no feed today"}', { status: 503 });
    if (init.method === 'POST') read = '2026-01-01T00:00:00.000Z';
    return new Response(JSON.stringify({ items: [{ id: 'm1', title: 'Hello', readAt: read }] }));
  });
  const client = new Rekindle();
  function Inbox() {
    const { items, loading, markRead } = useInbox();
    const feed = useFeed();
    if (loading || feed.loading) return <p>…</p>;
    return (
      <button onClick={() => void markRead('m1')}>
        {items.map((item) => `${item.title} ${item.readAt ? 'read' : 'new'}`).join()} {feed.error?.message}
      </button>
    );
  }
  const container = document.createElement('div');
  root = createRoot(container);
  client.identify('ada', {}, { userHash: 'h' });
  await act(async () =>
    root!.render(
      <RekindleProvider options={options} client={client}>
        <Inbox />
      </RekindleProvider>,
    ),
  );
  await vi.waitFor(() => expect(container.textContent).toBe('Hello new no feed today'));
  await act(async () => container.querySelector('button')!.click());
  await vi.waitFor(() => expect(container.textContent).toBe('Hello read no feed today'));
});

test('a user never sees another user’s messages: not while loading, not after an error, and not from a late response', async () => {
  const answers = new Map<string, (response: Response) => void>();
  vi.stubGlobal(
    'fetch',
    (url: string) =>
      new Promise<Response>((done) => answers.set(new URL(url, 'http://x').searchParams.get('user_id') ?? '', done)),
  );
  const inbox = (title: string) => new Response(JSON.stringify({ items: [{ id: title, title, readAt: null }] }));
  const client = new Rekindle();
  function Inbox() {
    const { items, error } = useInbox();
    return (
      <p>
        {items.map((item) => item.title).join()} {error?.message}
      </p>
    );
  }
  const container = document.createElement('div');
  root = createRoot(container);
  client.identify('ada', {}, { userHash: 'h' });
  await act(async () =>
    root!.render(
      <RekindleProvider options={options} client={client}>
        <Inbox />
      </RekindleProvider>,
    ),
  );
  await act(async () => answers.get('ada')!(inbox('Dear Ada')));
  await vi.waitFor(() => expect(container.textContent).toBe('Dear Ada '));
  await act(async () => client.identify('bob'));
  expect(container.textContent).toBe(' ');
  await vi.waitFor(() => expect(answers.has('bob')).toBe(true));
  await act(async () => client.identify('cid'));
  await vi.waitFor(() => expect(answers.has('cid')).toBe(true));
  await act(async () => answers.get('cid')!(new Response('{"message":"not proven"}', { status: 403 })));
  await act(async () => answers.get('bob')!(inbox('Dear Bob')));
  expect(container.textContent).toBe(' not proven');
});
