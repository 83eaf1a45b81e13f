import type { Item } from '@rekindle/core';

/** Data from the page for the service worker. Kept in a cache, which both can access and which needs no schema. */
export interface Remembered {
  apiUrl: string;
  apiKey: string;
  userId?: string;
  anonymousId: string;
  userHash?: string;
  userToken?: string;
  serverKey?: string;
  /** Nothing may be recorded. */
  optedOut?: boolean;
  /** Push is off for this browser: the user opted out or logged out, or there is no token. */
  unlinked?: boolean;
  /** The subscription's JSON, if the browser has replaced it. */
  token?: string;
}

const CACHE = 'rekindle';
const USER = '/rekindle/who';
/** Reports that were not sent yet, each with its ID as key: the page and the worker cannot overwrite each other's. */
const PENDING = '/rekindle/pending/';

/** Merges the change into the stored data. Locked, because pages and the worker write the same entry. */
export async function remember(change: Partial<Remembered>): Promise<void> {
  const defined = Object.fromEntries(
    Object.entries(change).filter(([key, value]) => value !== undefined || key.startsWith('user')),
  );
  await navigator.locks.request(USER, async () => write(USER, { ...(await recall()), ...defined }));
}

export async function recall(): Promise<Remembered | undefined> {
  const found = await (await caches.open(CACHE)).match(USER);
  return found ? ((await found.json()) as Remembered) : undefined;
}

export function keep(report: Item): Promise<void> {
  return write(PENDING + report.id, report);
}

/** Returns the pending reports, oldest first, and a function that deletes some of them. */
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
