import type { ReactNode } from 'react';
import type { Schemas } from '../../api/client';
import { Listing } from '../../components/listing';
import { ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { t } from '../../text';
import { userPage } from './user-ref';

type User = Schemas['User'];

/** Returns the best available name of a user. */
export function displayName(user: Pick<User, 'name' | 'email' | 'externalId' | 'anonymousId' | 'id'>): string {
  return user.name ?? user.email ?? user.externalId ?? user.anonymousId ?? user.id;
}

export function UserList({ users, projectId, empty }: { users: User[]; projectId: string; empty?: ReactNode }) {
  return (
    <Listing
      label={t.users.title}
      rows={users}
      id={(user) => user.id}
      empty={empty}
      columns={[
        {
          title: t.users.name,
          cell: (user) => {
            const { userId, search } = userPage(user);
            return (
              <ScreenLink to="/p/$projectId/users/$userId" params={{ projectId, userId }} search={search}>
                {displayName(user)}
              </ScreenLink>
            );
          },
        },
        { title: t.users.email, cell: (user) => user.email ?? '–' },
        { title: t.users.id, cell: (user) => user.externalId ?? t.users.anonymous },
        { title: t.users.lastSeen, cell: (user) => <Moment at={user.lastSeenAt} /> },
        { title: t.users.created, cell: (user) => <Moment at={user.createdAt} /> },
      ]}
    />
  );
}
