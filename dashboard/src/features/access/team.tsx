import { NativeSelect, Stack, Text } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type Schemas, api, read } from '../../api/client';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { ConfirmButton } from '../../components/confirm-button';
import { Failure, Loaded } from '../../components/failure';
import { type Column, Listing } from '../../components/listing';
import { Moment } from '../../components/moment';
import { Page } from '../../components/page';
import { useSession } from '../../session/use-session';
import { t } from '../../text';
import { Invites } from './invites';

type Member = Schemas['Member'];

export function Team() {
  const { projectId, isAdmin } = useProject();
  const { user } = useSession();
  const client = useQueryClient();
  const key = [projectId, 'team'];
  const team = useQuery({ queryKey: key, queryFn: ({ signal }) => read(api.GET('/team', { signal })) });
  const refresh = () => void client.invalidateQueries({ queryKey: key });
  const changing = useMutation({
    mutationFn: ({ id, role }: { id: string; role: Schemas['Role'] }) =>
      read(api.PUT('/team/{id}', { params: { path: { id } }, body: { role } })),
    onSuccess() {
      notify(t.team.changed);
      refresh();
    },
  });
  const actions: Array<Column<Member>> = [
    {
      title: t.team.role,
      cell: (member) =>
        isAdmin ? (
          <NativeSelect
            size="xs"
            aria-label={`${t.team.role}: ${member.email}`}
            value={member.role}
            disabled={changing.isPending}
            onChange={(event) =>
              changing.mutate({ id: member.id, role: event.currentTarget.value === 'ADMIN' ? 'ADMIN' : 'MEMBER' })
            }
            data={[
              { value: 'ADMIN', label: t.team.roles.ADMIN },
              { value: 'MEMBER', label: t.team.roles.MEMBER },
            ]}
          />
        ) : (
          t.team.roles[member.role ?? 'MEMBER']
        ),
    },
  ];
  if (isAdmin) {
    actions.push({
      title: t.team.remove,
      cell: (member) => (
        <ConfirmButton
          label={t.team.remove}
          title={t.team.removeTitle}
          action={() => read(api.DELETE('/team/{id}', { params: { path: { id: member.id } } }))}
          onDone={refresh}
        >
          {t.team.removeText(member.email)}
        </ConfirmButton>
      ),
    });
  }
  return (
    <Page title={t.team.title}>
      <Text>{t.team.roleHint}</Text>
      <Failure error={changing.error} />
      <Stack gap="xl">
        <Loaded query={team}>
          {({ members }) => (
            <Listing
              label={t.team.title}
              rows={members}
              id={(member) => member.id}
              empty={<Text>{t.team.empty}</Text>}
              columns={[
                { title: t.team.name, cell: (member) => `${member.name} ${member.id === user?.id ? t.team.you : ''}` },
                {
                  title: t.team.email,
                  cell: (member) => (member.verified ? member.email : `${member.email} · ${t.team.unverified}`),
                },
                { title: t.team.joined, cell: (member) => <Moment at={member.joinedAt} /> },
                ...actions,
              ]}
            />
          )}
        </Loaded>
        {isAdmin && <Invites />}
      </Stack>
    </Page>
  );
}
