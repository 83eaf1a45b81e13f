/** Delays the response until the request has taken effect, but at most 5 seconds, so that a later read finds the result. */
export const APPLIED = { Prefer: 'wait=5' } as const;
