/** What the page tells the service worker. Kept in a cache: both can reach it, and it needs no schema. */
export interface Remembered {
  apiUrl: string;
  apiKey: string;
  userId?: string;
  anonymousId: string;
  userHash?: string;
  serverKey?: string;
}

const CACHE = 'rekindle';

/** Keeps what is said over what was. */
export async function remember(change: Partial<Remembered>): Promise<void> {
  const given = Object.fromEntries(Object.entries(change).filter(([key, value]) => value !== undefined || key.startsWith('user')));
  await write('/rekindle/who', { ...(await recall()), ...given });
}

export function recall(): Promise<Remembered | undefined> {
  return read('/rekindle/who');
}

export async function read<T>(key: string): Promise<T | undefined> {
  const found = await (await caches.open(CACHE)).match(key);
  return found ? ((await found.json()) as T) : undefined;
}

export async function write(key: string, value: unknown): Promise<void> {
  await (await caches.open(CACHE)).put(key, new Response(JSON.stringify(value)));
}
