import type { Item } from '@rekindle/core';

/** What the page tells the service worker. Kept in a cache: both can reach it, and it needs no schema. */
export interface Remembered {
  apiUrl: string;
  apiKey: string;
  userId?: string;
  anonymousId: string;
  userHash?: string;
  userToken?: string;
  serverKey?: string;
  /** Nothing is to be recorded. */
  optedOut?: boolean;
  /** The person wants no push, or nobody is here to want it. */
  unlinked?: boolean;
  /** The subscription's JSON, where the browser has replaced it. */
  token?: string;
}

const CACHE = 'rekindle';
const WHO = '/rekindle/who';
/** Reports that were not sent yet, each under its id: the page and the worker cannot overwrite one another's. */
const PENDING = '/rekindle/pending/';

/** Keeps what is said over what was. One at a time: pages and the worker add to the same. */
export async function remember(change: Partial<Remembered>): Promise<void> {
  const given = Object.fromEntries(
    Object.entries(change).filter(([key, value]) => value !== undefined || key.startsWith('user')),
  );
  await navigator.locks.request(WHO, async () => write(WHO, { ...(await recall()), ...given }));
}

export async function recall(): Promise<Remembered | undefined> {
  const found = await (await caches.open(CACHE)).match(WHO);
  return found ? ((await found.json()) as Remembered) : undefined;
}

export function keep(report: Item): Promise<void> {
  return write(PENDING + report.id, report);
}

/** The reports that wait, oldest first, and how to let some of them go. */
export async function pending(): Promise<{ reports: Item[]; forget(reports: Item[]): Promise<void> }> {
  const cache = await caches.open(CACHE);
  const keys = (await cache.keys()).filter(({ url }) => url.includes(PENDING));
  const found = await Promise.all(
    keys.map(async (key) => (await cache.match(key))?.json() as Promise<Item | undefined>),
  );
  const forget = async (reports: Item[]) => {
    await Promise.all(reports.map(({ id }) => cache.delete(PENDING + id)));
  };
  return { reports: found.filter((report) => report !== undefined), forget };
}

async function write(key: string, value: unknown): Promise<void> {
  await (await caches.open(CACHE)).put(key, new Response(JSON.stringify(value)));
}
