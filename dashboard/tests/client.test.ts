import { beforeEach, expect, test, vi } from 'vitest';

// Resolves relative URLs like a browser does. The client captures `Request` when it is loaded.
vi.stubGlobal(
  'Request',
  class extends Request {
    constructor(input: string | Request, init?: RequestInit) {
      super(typeof input === 'string' ? new URL(input, 'http://localhost') : input, init);
    }
  },
);
const { api, apiFor, ifMatch, isFound, read, readTagged, setCurrentProject } = await import('../src/api/client');

/** Headers of the requests, and the status of each response; null for no response. */
let keys: Array<string | null>;
let projects: Array<string | null>;
let tags: Array<string | null>;
let responses: Array<number | null>;

beforeEach(() => {
  keys = [];
  projects = [];
  tags = [];
  vi.stubGlobal('fetch', (request: Request) => {
    keys.push(request.headers.get('idempotency-key'));
    projects.push(request.headers.get('x-project-id'));
    tags.push(request.headers.get('if-match'));
    const status = responses.shift();
    return status
      ? Promise.resolve(Response.json({ message: 'refused' }, { status, headers: { etag: '"now"' } }))
      : Promise.reject(new TypeError('no connection'));
  });
});

test('repeated create without a response uses the same idempotency key', async () => {
  const create = (name: string) => read(api.POST('/segments', { body: { name } })).catch(() => null);
  responses = [null, 503, 422, 201, 201];
  for (let attempt = 0; attempt < 5; attempt++) await create('Pro');
  const [lost, unknown, refused, created, another] = keys;
  expect(lost).toBeTruthy();
  expect(unknown).toBe(lost);
  expect(refused).toBe(lost);
  // After a response, the same request is a new operation.
  expect(new Set([lost, created, another]).size).toBe(3);
});

test('read requests have no idempotency key', async () => {
  responses = [200];
  await read(api.GET('/segments'));
  expect(keys).toEqual([null]);
});

test('requests use the current project, or the project that the client is bound to', async () => {
  responses = [200, 200, 200];
  setCurrentProject('one');
  const bound = apiFor('one');
  await read(api.GET('/segments'));
  setCurrentProject('two');
  await read(bound.GET('/segments'));
  await read(api.GET('/segments'));
  expect(projects).toEqual(['one', 'one', 'two']);
});

test('record is read with its entity tag and changed with or without it', async () => {
  responses = [200, 200, 412];
  const path = { id: 'x' };
  const { tag } = await readTagged(api.GET('/segments/{id}', { params: { path } }));
  await read(api.PUT('/segments/{id}', { params: { path, header: ifMatch(null) }, body: {} }));
  await expect(
    read(api.PUT('/segments/{id}', { params: { path, header: ifMatch(tag) }, body: {} })),
  ).rejects.toMatchObject({ status: 412, message: 'refused' });
  expect(tags).toEqual([null, null, '"now"']);
});

test('missing record is distinguished from a failed request', async () => {
  responses = [200, 404, 503];
  const check = () => isFound(api.GET('/segments'));
  expect(await check()).toBe(true);
  expect(await check()).toBe(false);
  await expect(check()).rejects.toMatchObject({ status: 503 });
});

test('repeated event without a response uses the same idempotency key', async () => {
  const sendOne = (event: string) => read(api.POST('/events', { body: { event, userId: 'ada' } })).catch(() => null);
  responses = [null, 202, 202, null, 202];
  for (const event of ['opened', 'opened', 'opened', 'closed', 'opened']) await sendOne(event);
  const [lost, repeated, another, other, edited] = keys;
  expect(repeated).toBe(lost);
  expect(new Set([lost, another, other, edited]).size).toBe(4);
});
