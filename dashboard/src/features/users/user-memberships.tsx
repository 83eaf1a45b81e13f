import { Button, Stack, Text } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { Failure, Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { ScreenLink } from '../../components/links';
import { More } from '../../components/more';
import { t } from '../../text';
import { Explanation } from '../segments/explanation';
import { useSegmentPages } from '../segments/all-segments';
import { INTERNAL } from './user-ref';

/** Up to this number of segments are evaluated for the user at once; beyond that, only on request. */
const MAX_EXPLAINED = 20;

/** All segments, and why the user is in each or not. */
export function UserSegments({ id }: { id: string }) {
  const { projectId } = useProject();
  const segments = useSegmentPages(projectId);
  return (
    <More query={segments} rows={(page) => page.segments}>
      {(rows) => (
        <Listing
          label={t.nav.segments}
          rows={rows}
          id={(segment) => segment.id}
          empty={<Text>{t.user.noSegments}</Text>}
          columns={[
            {
              title: t.user.segment,
              cell: (segment) => (
                <ScreenLink to="/p/$projectId/segments/$segmentId" params={{ projectId, segmentId: segment.id }}>
                  {segment.name}
                </ScreenLink>
              ),
            },
            {
              title: t.user.member,
              cell: (segment) => (
                <SegmentMembership segment={segment} userId={id} openInitially={rows.length <= MAX_EXPLAINED} />
              ),
            },
          ]}
        />
      )}
    </More>
  );
}

interface SegmentMembershipProps {
  segment: Schemas['Segment'];
  userId: string;
  openInitially: boolean;
}

function SegmentMembership({ segment, userId, openInitially }: SegmentMembershipProps) {
  const [open, setOpen] = useState(openInitially);
  return open ? (
    <Stack gap="xs" align="flex-start">
      <Explanation segmentId={segment.id} userId={userId} {...INTERNAL} />
      <Button size="compact-xs" variant="default" onClick={() => setOpen(false)}>
        {t.user.hide}
      </Button>
    </Stack>
  ) : (
    <Button size="compact-xs" variant="default" onClick={() => setOpen(true)}>
      {t.user.why}
    </Button>
  );
}

export function UserSubscriptions({ id }: { id: string }) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const key = [projectId, 'subscriptions', id];
  const subscriptions = useQuery({
    queryKey: key,
    queryFn: ({ signal }) =>
      read(api.GET('/users/{id}/subscriptions', { params: { path: { id }, query: INTERNAL }, signal })),
  });
  const changing = useMutation({
    mutationFn: (group: { id: string; subscribed: boolean }) =>
      read(
        api.PUT('/users/{id}/subscriptions', { params: { path: { id }, query: INTERNAL }, body: { groups: [group] } }),
      ),
    onSuccess: (stored) => client.setQueryData(key, stored),
  });
  return (
    <Loaded query={subscriptions}>
      {({ groups }) => (
        <Stack>
          <Failure error={changing.error} />
          <Listing
            label={t.nav.groups}
            rows={groups}
            id={(group) => group.id}
            empty={<Text>{t.user.noGroups}</Text>}
            columns={[
              { title: t.user.group, cell: (group) => group.name },
              { title: t.user.subscribed, cell: (group) => (group.subscribed ? t.yes : t.no) },
              { title: t.user.source, cell: (group) => (group.source ? t.user.sources[group.source] : t.user.default) },
              {
                title: t.edit,
                cell: (group) => (
                  <Button
                    size="compact-xs"
                    variant="default"
                    loading={changing.isPending}
                    onClick={() => changing.mutate({ id: group.id, subscribed: !group.subscribed })}
                  >
                    {group.subscribed ? t.user.unsubscribe : t.user.subscribe}
                  </Button>
                ),
              },
            ]}
          />
        </Stack>
      )}
    </Loaded>
  );
}
