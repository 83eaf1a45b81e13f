import { Group, Paper, SegmentedControl, SimpleGrid, Skeleton, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { Suspense, lazy, useMemo } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { MESSAGE_STATUSES, RANGES } from '../../app/values';
import { Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { ScreenLink } from '../../components/links';
import { formatDay } from '../../components/moment';
import { Page, Section } from '../../components/page';
import { t } from '../../text';
import { FirstSteps } from './first-steps';

const Chart = lazy(() => import('../../components/chart'));
const route = getRouteApi('/p/$projectId/overview');
/** Poll interval of the report. */
const POLL_MS = 15_000;

export function Overview() {
  const { projectId } = useProject();
  const { range = '30d' } = route.useSearch();
  const navigate = route.useNavigate();
  const report = useQuery({
    queryKey: [projectId, 'report', range],
    queryFn: ({ signal }) => read(api.GET('/reports', { params: { query: { range } }, signal })),
    refetchInterval: POLL_MS,
    placeholderData: (before) => before,
  });
  const choose = (chosen: string) =>
    navigate({ search: { range: RANGES.find((each) => each === chosen) }, replace: true });
  return (
    <Page
      title={t.overview.title}
      actions={
        <SegmentedControl
          aria-label={t.overview.range}
          value={range}
          onChange={(chosen) => void choose(chosen)}
          data={RANGES.map((value) => ({ value, label: t.overview.ranges[value] ?? value }))}
        />
      }
    >
      <Loaded query={report} rows={8}>
        {(found) => (
          <Stack gap="xl">
            <Text size="sm" c="dimmed">
              {t.overview.days(formatDay(found.from), formatDay(found.to), found.timezone)}
            </Text>
            <SimpleGrid cols={{ base: 1, xs: 3 }}>
              <Figure name={t.overview.events} value={found.events} />
              <Figure name={t.overview.activeUsers} value={found.activeUsers} />
              <Figure name={t.overview.messagesSent} value={found.messagesSent} />
            </SimpleGrid>
            <FirstSteps
              isEmpty={found.events === 0 && found.activeUsers === 0}
              hasSent={(found.messagesSent ?? 0) > 0}
            />
            <Days days={found.timeseries} />
            <SimpleGrid cols={{ base: 1, md: 2 }} spacing="xl">
              <Deliveries by={found.deliveries ?? {}} />
              <TopEvents events={found.topEvents ?? []} projectId={projectId} />
            </SimpleGrid>
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

function Figure({ name, value = 0 }: { name: string; value?: number }) {
  return (
    <Paper withBorder p="md">
      <Text size="sm" c="dimmed">
        {name}
      </Text>
      <Text size="xl" fw={600}>
        {t.number(value)}
      </Text>
    </Paper>
  );
}

interface Day {
  date: string;
  events?: number;
  messagesSent?: number;
}

function Days({ days }: { days: Day[] }) {
  const drawn = useMemo(
    () => ({
      days: days.map((day) => day.date),
      events: days.map((day) => day.events ?? 0),
      sent: days.map((day) => day.messagesSent ?? 0),
    }),
    [days],
  );
  const chart = (name: string, values: number[]) => (
    <Paper withBorder p="md">
      <Text fw={500} mb="xs">
        {name}
      </Text>
      <Suspense fallback={<Skeleton height={200} />}>
        <Chart label={t.overview.chart(name)} name={name} days={drawn.days} values={values} />
      </Suspense>
    </Paper>
  );
  return (
    <Section title={t.overview.perDay}>
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        {chart(t.overview.events, drawn.events)}
        {chart(t.overview.messagesSent, drawn.sent)}
      </SimpleGrid>
      <details style={{ marginTop: 'var(--mantine-spacing-sm)' }}>
        <summary>{t.overview.asTable}</summary>
        <Listing
          label={t.overview.perDay}
          rows={days.toReversed()}
          id={(day) => day.date}
          columns={[
            { title: t.overview.day, cell: (day) => formatDay(day.date) },
            { title: t.overview.events, cell: (day) => t.number(day.events ?? 0), end: true },
            { title: t.overview.messagesSent, cell: (day) => t.number(day.messagesSent ?? 0), end: true },
          ]}
        />
      </details>
    </Section>
  );
}

function Deliveries({ by }: { by: Record<string, Record<string, number>> }) {
  const rows = Object.entries(by);
  const states = MESSAGE_STATUSES.filter((status) => rows.some(([, counts]) => (counts[status] ?? 0) > 0));
  return (
    <Section title={t.overview.deliveries}>
      <Text size="sm" c="dimmed" mb="xs">
        {t.overview.deliveriesHint}
      </Text>
      {states.length === 0 ? (
        <Text size="sm">{t.overview.noDeliveries}</Text>
      ) : (
        <Listing
          label={t.overview.deliveries}
          rows={rows}
          id={([channel]) => channel}
          columns={[
            { title: t.overview.channel, cell: ([channel]) => t.channelName(channel as Schemas['Channel']) },
            ...states.map((status) => ({
              title: t.statuses[status] ?? status,
              cell: ([, counts]: [string, Record<string, number>]) => t.number(counts[status] ?? 0),
              end: true,
            })),
          ]}
        />
      )}
    </Section>
  );
}

function TopEvents({ events, projectId }: { events: Array<{ eventName: string; count: number }>; projectId: string }) {
  const max = Math.max(1, ...events.map((event) => event.count));
  return (
    <Section title={t.overview.topEvents}>
      <Listing
        label={t.overview.topEvents}
        rows={events}
        id={(event) => event.eventName}
        empty={<Text size="sm">{t.events.emptyTitle}</Text>}
        columns={[
          {
            title: t.overview.event,
            cell: (event) => (
              <Group gap="xs" wrap="nowrap">
                <div
                  aria-hidden
                  style={{
                    width: Math.max(2, (event.count / max) * 80),
                    height: 8,
                    flex: 'none',
                    background: 'var(--mantine-color-ember-6)',
                  }}
                />
                <ScreenLink to="/p/$projectId/events" params={{ projectId }} search={{ event: event.eventName }}>
                  {event.eventName}
                </ScreenLink>
              </Group>
            ),
          },
          { title: t.overview.count, cell: (event) => t.number(event.count), end: true },
        ]}
      />
    </Section>
  );
}
