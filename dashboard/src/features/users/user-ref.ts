import type { Schemas } from '../../api/client';

/** Query for requests with an internal user ID. Without it, an equal external ID of another user takes precedence. */
export const INTERNAL = { idType: 'internal' } as const;

/** Returns the URL parameters of a user's page: the external ID, or the internal ID if there is none. */
export function userPage(user: Pick<Schemas['User'], 'id' | 'externalId'>): {
  userId: string;
  search: { idType?: 'internal' };
} {
  return user.externalId === null ? { userId: user.id, search: INTERNAL } : { userId: user.externalId, search: {} };
}
