import { Text } from '@mantine/core';
import type { Schemas } from '../../api/client';
import { useProject } from '../../app/project';
import { Listing } from '../../components/listing';
import { ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { t } from '../../text';
import { pathName } from './path-name';

/** The path of a run: what happened at each step, and why. */
export function Path({ path }: { path: Schemas['RunPath'] }) {
  const { projectId } = useProject();
  return (
    <Listing
      label={t.runs.path}
      rows={path.map((entry, index) => ({ ...entry, index }))}
      id={(entry) => String(entry.index)}
      empty={<Text size="sm">{t.runs.noSteps}</Text>}
      columns={[
        { title: t.runs.at, cell: (entry) => <Moment at={entry.at} /> },
        {
          title: t.runs.step,
          cell: (entry) =>
            entry.step === null
              ? '–'
              : `${entry.name ?? t.steps.types[entry.type ?? ''] ?? entry.type ?? ''} (${entry.step})`,
        },
        {
          title: t.runs.outcome,
          cell: (entry) => (
            <>
              {t.runs.outcomes[entry.did] ?? entry.did}
              {entry.arm && `: ${pathName(entry.arm, entry.type)}`}
            </>
          ),
        },
        {
          title: t.runs.details,
          cell: (entry) => (entry.until ? <Moment at={entry.until} /> : (entry.why ?? entry.messageStatusReason ?? '')),
        },
        {
          title: t.runs.message,
          cell: (entry) =>
            entry.messageId && (
              <ScreenLink to="/p/$projectId/messages/$messageId" params={{ projectId, messageId: entry.messageId }}>
                {entry.messageStatus ? (t.statuses[entry.messageStatus] ?? entry.messageStatus) : t.messages.view}
              </ScreenLink>
            ),
        },
      ]}
    />
  );
}
