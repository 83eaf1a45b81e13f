import { Group, Stack, Text } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { type Schemas, api, read } from '../../api/client';
import { REQUESTS } from '../../app/requests';
import { useProject } from '../../app/project';
import { PLATFORMS } from '../../app/values';
import { Empty } from '../../components/empty';
import { Loaded } from '../../components/failure';
import { Choice, SearchField } from '../../components/filters';
import { Listing } from '../../components/listing';
import { ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { Pager } from '../../components/pager';
import { t } from '../../text';
import { NextStep } from '../access/next-step';

const route = getRouteApi('/p/$projectId/channels');
const LIMIT = 50;

/** Devices that are registered for push notifications. */
export function Devices() {
  const { projectId } = useProject();
  const filters = route.useSearch();
  const navigate = route.useNavigate();
  const { platform, user, page = 1 } = filters;
  const devices = useQuery({
    queryKey: [projectId, 'devices', platform, user, page],
    queryFn: ({ signal }) =>
      read(
        api.GET('/push-tokens/devices', { params: { query: { platform, userId: user, page, limit: LIMIT } }, signal }),
      ),
    placeholderData: keepPreviousData,
  });
  const filter = (change: Partial<typeof filters>) =>
    void navigate({ search: { ...filters, page: undefined, ...change }, replace: true });
  const isFiltered = platform !== undefined || user !== undefined;
  return (
    <Stack>
      <Text>{t.devices.text}</Text>
      <Group align="flex-end">
        <Choice
          label={t.devices.platform}
          value={platform}
          options={PLATFORMS}
          name={(each) => t.devices.platforms[each]}
          onChange={(value) => filter({ platform: value })}
        />
        <SearchField label={t.devices.userId} value={user} onChange={(value) => filter({ user: value })} />
      </Group>
      <Loaded query={devices}>
        {(found) => (
          <Stack>
            <DeviceList devices={found.devices} isFiltered={isFiltered} />
            <Pager
              page={page}
              limit={LIMIT}
              total={found.total}
              totalIsCapped={found.totalIsCapped}
              onPage={(next) => filter({ page: next })}
            />
          </Stack>
        )}
      </Loaded>
    </Stack>
  );
}

function DeviceList({ devices, isFiltered }: { devices: Array<Schemas['RegisteredDevice']>; isFiltered: boolean }) {
  const { projectId } = useProject();
  return (
    <Listing
      label={t.devices.title}
      rows={devices}
      id={(device) => device.id}
      empty={
        isFiltered ? (
          <Empty title={t.devices.emptyTitle}>{t.devices.emptyFiltered}</Empty>
        ) : (
          <NextStep
            title={t.devices.emptyTitle}
            text={t.devices.emptyText}
            label={t.devices.snippet}
            request={REQUESTS.device}
          />
        )
      }
      columns={[
        { title: t.devices.platform, cell: (device) => t.devices.platforms[device.platform] },
        {
          title: t.devices.user,
          cell: (device) => {
            const userId = device.userId ?? device.anonymousId;
            return userId === null ? (
              t.devices.unknown
            ) : (
              <ScreenLink to="/p/$projectId/users/$userId" params={{ projectId, userId }}>
                {userId}
              </ScreenLink>
            );
          },
        },
        { title: t.devices.since, cell: (device) => <Moment at={device.createdAt} /> },
        { title: t.devices.updated, cell: (device) => <Moment at={device.updatedAt} /> },
      ]}
    />
  );
}
