import { Progress, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type Schemas, api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { MESSAGE_STATUSES } from '../../app/values';
import { Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { Section } from '../../components/page';
import { Status } from '../../components/status';
import { t } from '../../text';
import { processedCount } from './plan';

const ACTIVE_POLL_MS = 2_000;
const IDLE_POLL_MS = 15_000;

/** Report of a campaign, during and after sending. */
export function Report({ campaign }: { campaign: Schemas['Campaign'] }) {
  const { projectId } = useProject();
  const hasStarted = campaign.startedAt !== null;
  const report = useQuery({
    queryKey: [projectId, 'campaign-report', campaign.id],
    queryFn: ({ signal }) => read(api.GET('/campaigns/{id}/report', { params: { path: { id: campaign.id } }, signal })),
    enabled: hasStarted,
    refetchInterval: campaign.status === 'SENDING' ? ACTIVE_POLL_MS : IDLE_POLL_MS,
  });
  if (!hasStarted) {
    return (
      <Section title={t.campaigns.report}>
        <Text size="sm">{t.campaigns.notSent}</Text>
      </Section>
    );
  }
  return (
    <Loaded query={report}>
      {(found) => {
        const byStatus = found.byStatus as Record<string, number>;
        const processed = processedCount(byStatus);
        const percent = found.total === 0 ? 0 : (processed / found.total) * 100;
        return (
          <Stack gap="xl">
            <Section title={t.campaigns.progress}>
              <Progress value={percent} aria-label={t.campaigns.progress} />
              <Text size="sm" mt={4} data-testid="progress">
                {t.campaigns.progressOf(t.number(processed), t.number(found.total))}
              </Text>
            </Section>
            {found.winner && (
              <Text>
                {t.campaigns.winnerIs(
                  found.winner.variant,
                  t.campaigns.metrics[found.winner.metric] ?? found.winner.metric,
                  t.campaigns.decisions[found.winner.decidedBy] ?? found.winner.decidedBy,
                )}
              </Text>
            )}
            <Section title={t.campaigns.report}>
              <Listing
                label={t.campaigns.report}
                rows={MESSAGE_STATUSES.filter((status) => (byStatus[status] ?? 0) > 0)}
                id={(status) => status}
                empty={<Text size="sm">{t.campaigns.notSent}</Text>}
                columns={[
                  { title: t.campaigns.state, cell: (status) => <Status of={status} /> },
                  { title: t.campaigns.count, cell: (status) => t.number(byStatus[status] ?? 0), end: true },
                ]}
              />
              {found.conversion && (
                <Text size="sm" mt="xs">
                  {t.campaigns.conversion(found.conversion.event, found.conversion.within)}:{' '}
                  {found.conversion.converted === null
                    ? `${t.campaigns.unknown} (${found.conversion.convertedError ?? ''})`
                    : t.number(found.conversion.converted)}
                </Text>
              )}
            </Section>
            {found.variants && found.variants.length > 0 && <Variants variants={found.variants} />}
            <Section title={t.campaigns.links}>
              <Listing
                label={t.campaigns.links}
                rows={found.links ?? []}
                id={(link) => link.url ?? ''}
                empty={<Text size="sm">{t.campaigns.noLinks}</Text>}
                columns={[
                  { title: t.campaigns.url, cell: (link) => link.url ?? t.campaigns.unknown },
                  { title: t.campaigns.clicks, cell: (link) => t.number(link.clicks), end: true },
                  { title: t.campaigns.uniqueClicks, cell: (link) => t.number(link.messages), end: true },
                ]}
              />
            </Section>
          </Stack>
        );
      }}
    </Loaded>
  );
}

interface Variant {
  name: string;
  total: number;
  byStatus: unknown;
  converted?: number | null;
}

function Variants({ variants }: { variants: Variant[] }) {
  const counts = (variant: Variant) => variant.byStatus as Record<string, number>;
  const states = MESSAGE_STATUSES.filter((status) => variants.some((variant) => (counts(variant)[status] ?? 0) > 0));
  return (
    <Section title={t.campaigns.byVariant}>
      <Listing
        label={t.campaigns.byVariant}
        rows={variants}
        id={(variant) => variant.name}
        columns={[
          { title: t.campaigns.name, cell: (variant) => variant.name },
          { title: t.campaigns.total, cell: (variant) => t.number(variant.total), end: true },
          ...states.map((status) => ({
            title: t.statuses[status] ?? status,
            cell: (variant: Variant) => t.number(counts(variant)[status] ?? 0),
            end: true,
          })),
          {
            title: t.campaigns.converted,
            cell: (variant) =>
              variant.converted === null || variant.converted === undefined ? '–' : t.number(variant.converted),
            end: true,
          },
        ]}
      />
    </Section>
  );
}
