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
import { Explained } from '../segments/explained';
import { useSegmentPages } from '../segments/all-segments';
import { INTERNAL } from './user-ref';

/** Each is evaluated for the person: so many at once, and of more those that are asked about. */
const FEW = 20;

/** Every segment, and why the person is in it or is not. */
export function PersonSegments({ id }: { id: string }) {
  const { projectId } = useProject();
  const segments = useSegmentPages(projectId);
  return (
    <More query={segments} rows={(page) => page.segments}>
      {(rows) => (
        <Listing
          label={t.nav.segments}
          rows={rows}
          id={(segment) => segment.id}
          empty={<Text>{t.person.noSegments}</Text>}
          columns={[
            {
              title: t.person.segment,
              cell: (segment) => (
                <ScreenLink to="/p/$projectId/segments/$segmentId" params={{ projectId, segmentId: segment.id }}>
                  {segment.name}
                </ScreenLink>
              ),
            },
            {
              title: t.person.member,
              cell: (segment) => <Why segment={segment} person={id} asked={rows.length <= FEW} />,
            },
          ]}
        />
      )}
    </More>
  );
}

function Why({ segment, person, asked }: { segment: Schemas['Segment']; person: string; asked: boolean }) {
  const [open, setOpen] = useState(asked);
  return open ? (
    <Stack gap="xs" align="flex-start">
      <Explained segmentId={segment.id} person={person} {...INTERNAL} />
      <Button size="compact-xs" variant="default" onClick={() => setOpen(false)}>
        {t.person.hide}
      </Button>
    </Stack>
  ) : (
    <Button size="compact-xs" variant="default" onClick={() => setOpen(true)}>
      {t.person.why}
    </Button>
  );
}

export function PersonSubscriptions({ id }: { id: string }) {
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
            empty={<Text>{t.person.noGroups}</Text>}
            columns={[
              { title: t.person.group, cell: (group) => group.name },
              { title: t.person.subscribed, cell: (group) => (group.subscribed ? t.yes : t.no) },
              { title: t.person.source, cell: (group) => group.source ?? t.person.default },
              {
                title: t.edit,
                cell: (group) => (
                  <Button
                    size="compact-xs"
                    variant="default"
                    loading={changing.isPending}
                    onClick={() => changing.mutate({ id: group.id, subscribed: !group.subscribed })}
                  >
                    {group.subscribed ? t.person.unsubscribe : t.person.subscribe}
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
