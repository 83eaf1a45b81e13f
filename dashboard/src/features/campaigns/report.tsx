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
import { settledOf } from './plan';

const LIVE_MS = 2_000;
const CALM_MS = 15_000;

/** What came of a campaign, while it goes and afterwards. */
export function Report({ campaign }: { campaign: Schemas['Campaign'] }) {
  const { projectId } = useProject();
  const begun = campaign.startedAt !== null;
  const report = useQuery({
    queryKey: [projectId, 'campaign-report', campaign.id],
    queryFn: ({ signal }) => read(api.GET('/campaigns/{id}/report', { params: { path: { id: campaign.id } }, signal })),
    enabled: begun,
    refetchInterval: campaign.status === 'SENDING' ? LIVE_MS : CALM_MS,
  });
  if (!begun) {
    return (
      <Section title={t.campaigns.report}>
        <Text size="sm">{t.campaigns.notSent}</Text>
      </Section>
    );
  }
  return (
    <Loaded query={report}>
      {(told) => {
        const byStatus = told.byStatus as Record<string, number>;
        const settled = settledOf(byStatus);
        const percent = told.total === 0 ? 0 : (settled / told.total) * 100;
        return (
          <Stack gap="xl">
            <Section title={t.campaigns.progress}>
              <Progress value={percent} aria-label={t.campaigns.progress} />
              <Text size="sm" mt={4} data-testid="progress">
                {t.campaigns.progressOf(t.number(settled), t.number(told.total))}
              </Text>
            </Section>
            {told.winner && (
              <Text>
                {t.campaigns.winnerIs(
                  told.winner.variant,
                  t.campaigns.metrics[told.winner.metric] ?? told.winner.metric,
                  told.winner.decidedBy,
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
              {told.conversion && (
                <Text size="sm" mt="xs">
                  {t.campaigns.conversion(told.conversion.event, told.conversion.within)}:{' '}
                  {told.conversion.converted === null
                    ? `${t.campaigns.notKnown} (${told.conversion.convertedError ?? ''})`
                    : t.number(told.conversion.converted)}
                </Text>
              )}
            </Section>
            {told.variants && told.variants.length > 0 && <Variants variants={told.variants} />}
            <Section title={t.campaigns.links}>
              <Listing
                label={t.campaigns.links}
                rows={told.links ?? []}
                id={(link) => link.url ?? ''}
                empty={<Text size="sm">{t.campaigns.noLinks}</Text>}
                columns={[
                  { title: t.campaigns.url, cell: (link) => link.url ?? t.campaigns.notKnown },
                  { title: t.campaigns.clicks, cell: (link) => t.number(link.clicks), end: true },
                  { title: t.campaigns.clickers, cell: (link) => t.number(link.messages), end: true },
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
            title: status,
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
