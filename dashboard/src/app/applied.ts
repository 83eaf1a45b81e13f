/** Asks for an answer once what was sent has taken effect, or after that many seconds: whoever looks then finds it. */
export const APPLIED = { Prefer: 'wait=5' } as const;
