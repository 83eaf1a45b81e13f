import { Table } from '@mantine/core';
import { Moment } from '../../components/moment';
import { t } from '../../text';
import type { Plan } from './plan';
import { useSegments } from './wizard-audience';
import { useTemplates } from './wizard-content';

/** A plan in words. */
export function Summary({ plan }: { plan: Plan }) {
  const segments = useSegments().data?.segments ?? [];
  const templates = useTemplates(plan.channel).data?.templates ?? [];
  const segment = (id: string) => segments.find((each) => each.id === id)?.name ?? '–';
  const template = (id: string) => templates.find((each) => each.id === id)?.name ?? '–';
  const content = plan.variants.length > 0 ? t.campaigns.summary.variants(plan.variants.map(({ name, templateId }) => `${name} (${template(templateId)})`).join(', ')) : template(plan.templateId);
  const rows: Array<[string, React.ReactNode]> = [
    [t.campaigns.summary.audience, segment(plan.segmentId)],
    [t.campaigns.summary.excluded, plan.excludeSegmentIds.length > 0 ? plan.excludeSegmentIds.map(segment).join(', ') : t.campaigns.summary.none],
    [t.campaigns.summary.content, `${t.channelName(plan.channel)}: ${content}`],
    [t.campaigns.summary.schedule, plan.recurrence ? `${plan.recurrence.cron} (${plan.recurrence.timezone ?? 'UTC'})` : plan.scheduledAt ? <Moment key="at" at={new Date(plan.scheduledAt).toISOString()} /> : t.campaigns.byHand],
    [t.campaigns.summary.pace, plan.throttlePerMinute ? t.campaigns.summary.perMinute(plan.throttlePerMinute) : t.campaigns.summary.full],
  ];
  return (
    <Table variant="vertical" withTableBorder style={{ overflowWrap: 'anywhere' }}>
      <Table.Tbody>
        {rows.map(([name, value]) => (
          <Table.Tr key={name}>
            <Table.Th scope="row" w={140}>
              {name}
            </Table.Th>
            <Table.Td>{value}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
