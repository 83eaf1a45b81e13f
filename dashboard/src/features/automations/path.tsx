import { Box, Text } from '@mantine/core';
import type { Schemas } from '../../api/client';
import { useProject } from '../../app/project';
import { messageReason, stepDetails } from '../../app/reasons';
import { Listing } from '../../components/listing';
import { ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { Reason } from '../../components/reason';
import { t } from '../../text';
import { pathName } from './path-name';
import { stepLabel } from './step-place';

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
          // A run passes a step before those in its branches.
          cell: (entry) => <Box miw={180}>{stepLabel(entry, path)}</Box>,
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
          cell: (entry) => <StepDetails entry={entry} />,
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

function StepDetails({ entry }: { entry: Schemas['RunPath'][number] }) {
  const { until, why, messageStatus, messageStatusReason } = entry;
  if (until) return <Moment at={until} />;
  if (why !== null) return stepDetails(entry);
  if (messageStatusReason === null) return null;
  return (
    <Reason reason={messageStatusReason} words={(reason) => messageReason(reason, messageStatus ?? '')} maw={320} />
  );
}
