const FIRST = 1_000;
const MOST = 300_000;
const LONGEST = 3_600_000;

/** Full jitter: anywhere between nothing and a bound that doubles with each failure, in milliseconds. `random` is in [0, 1). */
export function backoff(failures: number, random: () => number): number {
  return Math.max(100, random() * Math.min(MOST, FIRST * 2 ** (failures - 1)));
}

/** Milliseconds that a `Retry-After` header asks for, in seconds or as a date; an hour at most: long timers fire at once. */
export function retryAfter(header: string | null, now: number): number | undefined {
  if (!header) return undefined;
  const seconds = Number(header);
  const wait = seconds >= 0 ? seconds * 1_000 : Date.parse(header) - now;
  return wait >= 0 ? Math.min(wait, LONGEST) : undefined;
}
