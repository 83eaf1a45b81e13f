import { expect, test } from 'vitest';
import { MAX_CHARACTERS, MAX_ITEMS, MAX_STORED, Queue } from '../src/queue';

function mapStore(map = new Map<string, string>()) {
  const store = {
    map,
    writes: 0,
    get: (key: string) => map.get(key) ?? null,
    set: (key: string, value: string) => {
      store.writes++;
      map.set(key, value);
    },
    remove: (key: string) => void map.delete(key),
    keys: () => [...map.keys()],
  };
  return store;
}

/** Returns a queue in this store, the timers that it sets, and the numbers of dropped items. */
function queueIn(store: ReturnType<typeof mapStore>, instance = 'one') {
  const later: Array<() => void> = [];
  const dropped: number[] = [];
  const setTimer = (run: () => void) => later.push(run);
  return { queue: new Queue({ store, instance, setTimer }, 'q.', (count) => void dropped.push(count)), later, dropped };
}

const push = (queue: Queue, json: string) => queue.push(() => json, json.length);
const texts = (queue: Queue) => [...queue].map((item) => item.json);
const stored = ({ map }: ReturnType<typeof mapStore>) =>
  [...map.values()].flatMap((part) => JSON.parse(part) as unknown[]);

test('a queue is stored as it grows and shrinks, and another instance takes it over in order', () => {
  const store = mapStore();
  const { queue } = queueIn(store);
  for (let i = 0; i < 60; i++) push(queue, String(i));
  expect(store.map.size).toBe(3);
  queue.remove(new Set([...queue].slice(0, 30)));
  expect(queue.length).toBe(30);
  const { queue: other } = queueIn(store, 'two');
  push(other, '100');
  expect(other.others()).toEqual(['one']);
  other.takeOver('one');
  expect(texts(other)).toEqual(['100', ...Array.from({ length: 30 }, (_, i) => String(i + 30))]);
  expect([...store.map.keys()].every((key) => key.startsWith('q.two.'))).toBe(true);
  other.clear();
  expect(store.map.size).toBe(0);
});

test('damaged parts of another instance are deleted', () => {
  const store = mapStore(
    new Map([
      ['q.one.0', '{"no'],
      ['q.one.1', '["a"]'],
      ['q.one.2', '7'],
      ['other', 'x'],
    ]),
  );
  const { queue } = queueIn(store, 'two');
  queue.takeOver('one');
  expect(texts(queue)).toEqual(['"a"']);
  expect([...store.map.keys()].sort()).toEqual(['other', 'q.two.0']);
});

test('10,000 items of one task are kept, and written in slices after it', () => {
  const store = mapStore();
  const { queue, later, dropped } = queueIn(store);
  for (let i = 0; i < 10_000; i++) push(queue, String(i));
  expect([queue.length, dropped, store.writes]).toEqual([10_000, [], 100]);
  for (let run = later.shift(); run; run = later.shift()) {
    const before = store.writes;
    run();
    expect(store.writes - before).toBeLessThanOrEqual(20);
  }
  expect(stored(store)).toEqual(texts(queue).map(Number));
});

test('a queue closed in the task of a burst is stored completely', () => {
  const store = mapStore();
  const { queue } = queueIn(store);
  for (let i = 0; i < 5_000; i++) push(queue, String(i));
  queue.close();
  expect(stored(store)).toHaveLength(5_000);
});

test('beyond the maximum number of items the oldest are dropped and reported', () => {
  const store = mapStore();
  const { queue, dropped, later } = queueIn(store);
  for (let i = 0; i < MAX_ITEMS + 30; i++) push(queue, String(i));
  const count = dropped.reduce((sum, each) => sum + each, 0);
  expect(count).toBeGreaterThanOrEqual(30);
  expect([queue.length, texts(queue)[0]]).toEqual([MAX_ITEMS + 30 - count, String(count)]);
  for (let run = later.shift(); run; run = later.shift()) run();
  expect(stored(store)).toEqual(texts(queue).map(Number));
});

test('memory and storage are limited in characters', () => {
  const store = mapStore();
  const { queue, dropped, later } = queueIn(store);
  const large = JSON.stringify('x'.repeat(30_000));
  for (let i = 0; i < 400; i++) push(queue, large);
  for (let run = later.shift(); run; run = later.shift()) run();
  const kept = texts(queue).reduce((sum, text) => sum + text.length, 0);
  expect(kept).toBeLessThanOrEqual(MAX_CHARACTERS);
  expect(dropped.reduce((sum, count) => sum + count, 0)).toBe(400 - queue.length);
  const size = () => [...store.map.values()].reduce((sum, text) => sum + text.length, 0);
  expect(size()).toBeLessThanOrEqual(MAX_STORED);
  expect(size()).toBeGreaterThan(MAX_STORED / 2);
  // Sent items free storage for items that were not stored yet.
  queue.remove(new Set([...queue].slice(0, queue.length - 10)));
  expect(stored(store)).toHaveLength(10);
});
