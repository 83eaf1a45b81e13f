import { Button, Group, NativeSelect, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { namesOf } from '../../app/field-labels';
import { ConfirmButton } from '../../components/confirm-button';
import { Failure, Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { Moment } from '../../components/moment';
import { Section } from '../../components/page';
import { Status } from '../../components/status';
import { t } from '../../text';

const FIELD_NAMES = namesOf({ email: t.team.email, role: t.team.role });

/** Invitations of a project, and a form for a new one. */
export function Invites() {
  const { projectId } = useProject();
  const client = useQueryClient();
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<Schemas['Role']>('MEMBER');
  const key = [projectId, 'invites'];
  const invites = useQuery({ queryKey: key, queryFn: ({ signal }) => read(api.GET('/team/invites', { signal })) });
  const refresh = () => void client.invalidateQueries({ queryKey: key });
  const inviting = useMutation({
    mutationFn: () => read(api.POST('/team/invites', { body: { email, role } })),
    onSuccess({ notice }) {
      setEmail('');
      notify(notice === null ? t.team.invited : t.team.notMailed, notice !== null);
      refresh();
    },
  });
  return (
    <Section title={t.team.invites}>
      <Stack>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            inviting.mutate();
          }}
        >
          <Group align="flex-end">
            <TextInput
              type="email"
              label={t.team.email}
              required
              value={email}
              onChange={(event) => setEmail(event.currentTarget.value)}
              error={problemOf(inviting.error, 'email')}
            />
            <NativeSelect
              label={t.team.role}
              value={role}
              onChange={(event) => setRole(event.currentTarget.value === 'ADMIN' ? 'ADMIN' : 'MEMBER')}
              data={[
                { value: 'MEMBER', label: t.team.roles.MEMBER },
                { value: 'ADMIN', label: t.team.roles.ADMIN },
              ]}
            />
            <Button type="submit" loading={inviting.isPending}>
              {t.team.send}
            </Button>
          </Group>
        </form>
        <Failure error={inviting.error} nameField={FIELD_NAMES} />
        <Loaded query={invites}>
          {(found) => (
            <Listing
              label={t.team.invites}
              rows={found.invites}
              id={(invite) => invite.id}
              empty={<Text size="sm">{t.team.noInvites}</Text>}
              columns={[
                { title: t.team.email, cell: (invite) => invite.email },
                { title: t.team.role, cell: (invite) => t.team.roles[invite.role ?? 'MEMBER'] },
                {
                  title: t.team.status,
                  cell: (invite) => <Status of={invite.status} label={t.team.statuses[invite.status]} />,
                },
                { title: t.team.mail, cell: (invite) => t.team.mails[invite.emailStatus] },
                { title: t.team.expires, cell: (invite) => <Moment at={invite.expiresAt} /> },
                {
                  title: t.team.revoke,
                  cell: (invite) =>
                    invite.status === 'PENDING' && (
                      <ConfirmButton
                        label={t.team.revoke}
                        title={t.team.revokeTitle}
                        action={() => read(api.DELETE('/team/invites/{id}', { params: { path: { id: invite.id } } }))}
                        onDone={refresh}
                      >
                        {t.team.revokeText(invite.email)}
                      </ConfirmButton>
                    ),
                },
              ]}
            />
          )}
        </Loaded>
      </Stack>
    </Section>
  );
}
