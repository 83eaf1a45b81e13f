const FIRST = 1_000;
const MOST = 300_000;

/** Full jitter: anywhere between nothing and a bound that doubles with each failure, in milliseconds. `random` is in [0, 1). */
export function backoff(failures: number, random: () => number): number {
  return Math.max(100, random() * Math.min(MOST, FIRST * 2 ** (failures - 1)));
}

/** Milliseconds that a `Retry-After` header asks for: seconds or a date. */
export function retryAfter(header: string | null, now: number): number | undefined {
  if (!header) return undefined;
  const wait = /^\d+$/.test(header.trim()) ? Number(header) * 1_000 : Date.parse(header) - now;
  return wait >= 0 ? wait : undefined;
}
