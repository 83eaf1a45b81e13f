const BASE_DELAY_MS = 1_000;
const MAX_DELAY_MS = 300_000;
const MAX_RETRY_AFTER_MS = 3_600_000;

/** Returns a retry delay in milliseconds with full jitter: up to a bound that doubles with each failure. `random` is in [0, 1). */
export function backoff(failures: number, random: () => number): number {
  return Math.max(100, random() * Math.min(MAX_DELAY_MS, BASE_DELAY_MS * 2 ** (failures - 1)));
}

/** Parses a `Retry-After` header (seconds or a date) to milliseconds, at most an hour, because very long timers fire immediately. */
export function retryAfter(header: string | null, now: number): number | undefined {
  if (!header) return undefined;
  const seconds = Number(header);
  const wait = seconds >= 0 ? seconds * 1_000 : Date.parse(header) - now;
  return wait >= 0 ? Math.min(wait, MAX_RETRY_AFTER_MS) : undefined;
}
