import { beforeEach, expect, test, vi } from 'vitest';

// Of a page, whose addresses need no origin; the client takes it as it is loaded.
vi.stubGlobal(
  'Request',
  class extends Request {
    constructor(input: string | Request, init?: RequestInit) {
      super(typeof input === 'string' ? new URL(input, 'http://localhost') : input, init);
    }
  },
);
const { api, apiOf, ifMatch, isFound, read, readTagged, workOn } = await import('../src/api/client');

/** What the requests went under, and what each is answered; null where no answer comes. */
let keys: Array<string | null>;
let projects: Array<string | null>;
let tags: Array<string | null>;
let answers: Array<number | null>;

beforeEach(() => {
  keys = [];
  projects = [];
  tags = [];
  vi.stubGlobal('fetch', (request: Request) => {
    keys.push(request.headers.get('idempotency-key'));
    projects.push(request.headers.get('x-project-id'));
    tags.push(request.headers.get('if-match'));
    const status = answers.shift();
    return status
      ? Promise.resolve(Response.json({ message: 'told' }, { status, headers: { etag: '"now"' } }))
      : Promise.reject(new TypeError('no connection'));
  });
});

test('what is made again because nobody answered is made once', async () => {
  const make = (name: string) => read(api.POST('/segments', { body: { name } })).catch(() => null);
  answers = [null, 503, 422, 201, 201];
  for (let attempt = 0; attempt < 5; attempt++) await make('Pro');
  const [lost, undecided, refused, made, another] = keys;
  expect(lost).toBeTruthy();
  expect(undecided).toBe(lost);
  expect(refused).toBe(lost);
  // It was answered: whatever comes now is meant as another one.
  expect(new Set([lost, made, another]).size).toBe(3);
});

test('what is only read goes without a key', async () => {
  answers = [200];
  await read(api.GET('/segments'));
  expect(keys).toEqual([null]);
});

test('requests are about the project on the screen, or about the one that they are bound to', async () => {
  answers = [200, 200, 200];
  workOn('one');
  const bound = apiOf('one');
  await read(api.GET('/segments'));
  workOn('two');
  await read(bound.GET('/segments'));
  await read(api.GET('/segments'));
  expect(projects).toEqual(['one', 'one', 'two']);
});

test('a record comes with its tag, and is changed under it or under none', async () => {
  answers = [200, 200, 412];
  const path = { id: 'x' };
  const { tag } = await readTagged(api.GET('/segments/{id}', { params: { path } }));
  await read(api.PUT('/segments/{id}', { params: { path, header: ifMatch(null) }, body: {} }));
  await expect(
    read(api.PUT('/segments/{id}', { params: { path, header: ifMatch(tag) }, body: {} })),
  ).rejects.toMatchObject({ status: 412, message: 'told' });
  expect(tags).toEqual([null, null, '"now"']);
});

test('what is not there is told from what cannot be looked up', async () => {
  answers = [200, 404, 503];
  const look = () => isFound(api.GET('/segments'));
  expect(await look()).toBe(true);
  expect(await look()).toBe(false);
  await expect(look()).rejects.toMatchObject({ status: 503 });
});

test('an event that is sent again because nobody answered is the same one', async () => {
  const sendOne = (event: string) => read(api.POST('/events', { body: { event, userId: 'ada' } })).catch(() => null);
  answers = [null, 202, 202, null, 202];
  for (const event of ['came', 'came', 'came', 'went', 'came']) await sendOne(event);
  const [lost, again, another, other, edited] = keys;
  expect(again).toBe(lost);
  expect(new Set([lost, another, other, edited]).size).toBe(4);
});
