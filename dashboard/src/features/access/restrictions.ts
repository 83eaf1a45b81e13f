/** Values of the API key form, as typed. */
export interface KeyDraft {
  name: string;
  type: 'public' | 'secret';
  /** One origin per line. */
  origins: string;
  /** Requests per second; if empty, only the project's limit applies. */
  limit: string;
}

/** Fields of the request. A secret key has no restrictions, even if some were typed before the type was selected. */
export interface KeyFields {
  name: string;
  allowedOrigins: string[];
  rateLimit: number | null;
}

export const EMPTY: KeyDraft = { name: '', type: 'public', origins: '', limit: '' };

export function draftOf(key: KeyFields & { type: KeyDraft['type'] }): KeyDraft {
  return {
    name: key.name,
    type: key.type,
    origins: key.allowedOrigins.join('\n'),
    limit: key.rateLimit === null ? '' : String(key.rateLimit),
  };
}

export function fieldsOf({ name, type, origins, limit }: KeyDraft): KeyFields {
  if (type === 'secret') return { name, allowedOrigins: [], rateLimit: null };
  const allowedOrigins = origins.split(/[\s,]+/).filter((origin) => origin !== '');
  // Text that is not a number is sent too: the API reports what is allowed.
  return { name, allowedOrigins, rateLimit: limit.trim() === '' ? null : Number(limit) };
}
