import { Box, SimpleGrid, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { Schemas } from '../../api/client';
import { useProject } from '../../app/project';
import { Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { Section } from '../../components/page';
import { t } from '../../text';
import { pathName } from './path-name';
import { reportQuery } from './report-query';
import { stepLabel } from './step-place';

const COUNTS = ['entered', 'waiting', 'frozen', 'completed', 'exited', 'failed', 'converted'] as const;

function formatCounts(counts: unknown, label: (name: string) => string): string {
  return Object.entries(counts as Record<string, number>)
    .map(([name, count]) => `${label(name)}: ${t.number(count)}`)
    .join(', ');
}

/** Funnel: counts of runs by status, and per step. */
export function AutomationReport({ automation }: { automation: Schemas['Automation'] }) {
  const { projectId } = useProject();
  const report = useQuery(reportQuery(projectId, { id: automation.id, active: automation.active ?? false }));
  return (
    <Section title={t.automations.report}>
      <Loaded query={report}>
        {(found) =>
          found.entered === 0 ? (
            <Text size="sm">{t.automations.noEntries}</Text>
          ) : (
            <Stack>
              <SimpleGrid cols={{ base: 2, xs: 4 }} spacing="xs">
                {COUNTS.map((name) => (
                  <div key={name}>
                    <Text size="xs" c="dimmed">
                      {t.automations[name]}
                    </Text>
                    <Text fw={600}>{t.number(found[name])}</Text>
                  </div>
                ))}
              </SimpleGrid>
              <Listing
                label={t.automations.report}
                rows={found.steps}
                id={(step) => step.step}
                columns={[
                  {
                    title: t.automations.step,
                    cell: (step) => <Box miw={180}>{stepLabel(step, found.steps)}</Box>,
                  },
                  { title: t.automations.stepEntered, cell: (step) => t.number(step.entered), end: true },
                  { title: t.automations.stepWaiting, cell: (step) => t.number(step.waiting), end: true },
                  {
                    title: t.automations.outcomes,
                    cell: (step) => formatCounts(step.outcomes, (name) => t.runs.outcomes[name] ?? name),
                  },
                  {
                    title: t.automations.paths,
                    cell: (step) => formatCounts(step.arms, (name) => pathName(name, step.type)),
                  },
                ]}
              />
            </Stack>
          )
        }
      </Loaded>
    </Section>
  );
}
