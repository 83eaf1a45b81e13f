/** What the form of a key holds, as it is typed. */
export interface KeyDraft {
  name: string;
  type: 'public' | 'secret';
  /** One origin a line. */
  origins: string;
  /** Requests per second; empty for the project's limit alone. */
  limit: string;
}

/** What the API takes for it. A secret key has no restrictions, whatever was typed before its kind was chosen. */
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
  // What is no number goes as it is: the API says what is allowed.
  return { name, allowedOrigins, rateLimit: limit.trim() === '' ? null : Number(limit) };
}
