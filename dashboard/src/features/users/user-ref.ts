import type { Schemas } from '../../api/client';

/** The query of a request that names a user by internal id. Without it, an equal external id of another user would win. */
export const INTERNAL = { idType: 'internal' } as const;

/** Where a user's page is: at the external id, which people know, or else at the internal id. */
export function userPage(user: Pick<Schemas['User'], 'id' | 'externalId'>): {
  userId: string;
  search: { idType?: 'internal' };
} {
  return user.externalId === null ? { userId: user.id, search: INTERNAL } : { userId: user.externalId, search: {} };
}
