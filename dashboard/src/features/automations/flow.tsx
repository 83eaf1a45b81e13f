import { Group, SegmentedControl, Skeleton } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { Suspense, lazy, useMemo } from 'react';
import { useProject } from '../../app/project';
import { type FlowView, FLOW_VIEWS } from '../../app/values';
import { Section } from '../../components/page';
import { t } from '../../text';
import type { Plan } from './plan';
import { reportQuery } from './report-query';
import type { Step } from './step';
import { StepList } from './step-list';
import { numbersOf } from './step-numbers';

const Canvas = lazy(() => import('./canvas'));
const route = getRouteApi('/p/$projectId/automations/$automationId');
/** Where there is room for the canvas, it is what is seen first. */
const ROOMY = '(min-width: 48em)';

/** Which of the two is shown: by the address, or else by the room that there is. */
export function useFlowView(): FlowView {
  const { view } = route.useSearch();
  const isRoomy = useMediaQuery(ROOMY, true, { getInitialValueInEffect: false });
  return view ?? (isRoomy ? 'canvas' : 'list');
}

interface Props {
  plan: Plan;
  /** The steps as they were saved, whose numbers are known. */
  saved: readonly Step[];
  /** The automation, where it is stored and has been active. */
  stored: { id: string; active: boolean } | null;
  onChange: (steps: Step[]) => void;
  error: unknown;
}

/** What happens: the steps under each other, or their picture. */
export function Flow({ plan, saved, stored, onChange, error }: Props) {
  const { projectId } = useProject();
  const navigate = route.useNavigate();
  const view = useFlowView();
  const report = useQuery({ ...reportQuery(projectId, stored), enabled: stored !== null && view === 'canvas' });
  const numbers = useMemo(() => numbersOf(saved, report.data?.entered ? report.data : undefined), [saved, report.data]);
  const kind = t.automations.triggers[plan.triggerType];
  const what =
    plan.triggerType === 'DATE_PROPERTY'
      ? plan.date.property
      : plan.triggerType === 'EVENT' || plan.triggerType === 'WEBHOOK'
        ? plan.triggerEvent
        : '';
  const show = (chosen: string) =>
    void navigate({ search: { view: FLOW_VIEWS.find((each) => each === chosen) }, replace: true, ignoreBlocker: true });
  return (
    <Section
      title={t.automations.flow}
      actions={
        <Group gap="xs">
          <SegmentedControl
            size="xs"
            aria-label={t.canvas.view}
            value={view}
            onChange={show}
            data={FLOW_VIEWS.map((each) => ({ value: each, label: t.canvas.views[each] }))}
          />
        </Group>
      }
    >
      {view === 'list' ? (
        <StepList steps={plan.steps} onChange={onChange} error={error} place="steps" label={t.automations.flow} />
      ) : (
        <Suspense fallback={<Skeleton height={640} aria-busy="true" />}>
          <Canvas
            steps={plan.steps}
            onChange={onChange}
            error={error}
            trigger={what ? `${kind}: ${what}` : kind}
            numbers={numbers}
            label={t.automations.flow}
          />
        </Suspense>
      )}
    </Section>
  );
}
