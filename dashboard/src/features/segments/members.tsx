import { Button, Group, Stack, Text, Textarea } from '@mantine/core';
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { Failure, Loaded } from '../../components/failure';
import { Section } from '../../components/page';
import { Pager } from '../../components/pager';
import { t } from '../../text';
import { UserList } from '../users/user-list';

const LIMIT = 20;

/** Members of a segment; members of a manual segment can be added and removed. */
export function Members({ segment }: { segment: Schemas['Segment'] }) {
  const { projectId } = useProject();
  const [page, setPage] = useState(1);
  const key = [projectId, 'segment', segment.id, 'users'];
  const members = useQuery({
    queryKey: [...key, page, segment.updatedAt],
    queryFn: ({ signal }) =>
      read(
        api.GET('/segments/{id}/users', {
          params: { path: { id: segment.id }, query: { page, limit: LIMIT } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
  return (
    <Section title={t.segments.members}>
      <Stack>
        {segment.type === 'MANUAL' && <EditMembers segmentId={segment.id} queryKey={key} />}
        <Loaded query={members}>
          {(found) => (
            <>
              <UserList users={found.users} projectId={projectId} empty={<Text>{t.users.emptyTitle}</Text>} />
              <Pager
                page={page}
                limit={LIMIT}
                total={found.total}
                totalIsCapped={found.totalIsCapped}
                onPage={setPage}
              />
            </>
          )}
        </Loaded>
      </Stack>
    </Section>
  );
}

function EditMembers({ segmentId, queryKey }: { segmentId: string; queryKey: string[] }) {
  const client = useQueryClient();
  const [text, setText] = useState('');
  const ids = text
    .split('\n')
    .map((id) => id.trim())
    .filter(Boolean);
  const changing = useMutation({
    mutationFn: (body: { add?: string[]; remove?: string[] }) =>
      read(api.POST('/segments/{id}/members', { params: { path: { id: segmentId } }, body })),
    onSuccess({ added, removed, notFound }) {
      notify(t.segments.changed(added, removed));
      if (notFound.length === 0) setText('');
      void client.invalidateQueries({ queryKey });
    },
  });
  return (
    <Stack gap="xs">
      <Textarea
        label={t.segments.ids}
        description={t.segments.idsHint}
        autosize
        minRows={3}
        maxRows={12}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      {changing.data && changing.data.notFound.length > 0 && (
        <Text size="sm">{t.segments.notFound(changing.data.notFound.join(', '))}</Text>
      )}
      <Failure error={changing.error} />
      <Group>
        <Button
          size="xs"
          disabled={ids.length === 0}
          loading={changing.isPending}
          onClick={() => changing.mutate({ add: ids })}
        >
          {t.segments.addMembers}
        </Button>
        <Button
          size="xs"
          variant="default"
          disabled={ids.length === 0}
          loading={changing.isPending}
          onClick={() => changing.mutate({ remove: ids })}
        >
          {t.segments.removeMembers}
        </Button>
      </Group>
    </Stack>
  );
}

/** Users who entered and exited the segment, if an automation tracks its membership. */
export function MembershipChanges({ segmentId }: { segmentId: string }) {
  const { projectId } = useProject();
  const report = useQuery({
    queryKey: [projectId, 'segment', segmentId, 'report'],
    queryFn: ({ signal }) =>
      read(api.GET('/segments/{id}/report', { params: { path: { id: segmentId }, query: { range: '30d' } }, signal })),
  });
  if (!report.data?.membership) return null;
  const { entered, exited } = report.data;
  return (
    <Section title={`${t.segments.report}, ${t.overview.ranges['30d'] ?? ''}`}>
      <Text size="sm">
        {t.segments.entered}: {t.number(entered)} · {t.segments.exited}: {t.number(exited)}
      </Text>
    </Section>
  );
}
