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
/** On screens of at least this width, the canvas is the default view. */
const WIDE_SCREEN = '(min-width: 48em)';

/** Returns the view from the URL, or the default for the screen width. */
export function useFlowView(): FlowView {
  const { view } = route.useSearch();
  const isWide = useMediaQuery(WIDE_SCREEN, true, { getInitialValueInEffect: false });
  return view ?? (isWide ? 'canvas' : 'list');
}

interface Props {
  plan: Plan;
  /** The steps as last saved; the report refers to them. */
  saved: readonly Step[];
  /** The stored automation; null for a new one. */
  stored: { id: string; active: boolean } | null;
  onChange: (steps: Step[]) => void;
  error: unknown;
}

/** The workflow of an automation, as a list or as a canvas. */
export function Flow({ plan, saved, stored, onChange, error }: Props) {
  const { projectId } = useProject();
  const navigate = route.useNavigate();
  const view = useFlowView();
  const report = useQuery({ ...reportQuery(projectId, stored), enabled: stored !== null && view === 'canvas' });
  const numbers = useMemo(() => numbersOf(saved, report.data?.entered ? report.data : undefined), [saved, report.data]);
  const triggerType = t.automations.triggers[plan.triggerType];
  const triggerName =
    plan.triggerType === 'DATE_PROPERTY'
      ? plan.date.property
      : plan.triggerType === 'EVENT' || plan.triggerType === 'WEBHOOK'
        ? plan.triggerEvent
        : '';
  const show = (chosen: string) =>
    void navigate({ search: { view: FLOW_VIEWS.find((each) => each === chosen) }, replace: true, ignoreBlocker: true });
  return (
    <Section
      title={t.automations.workflow}
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
        <StepList steps={plan.steps} onChange={onChange} error={error} path="steps" label={t.automations.workflow} />
      ) : (
        <Suspense fallback={<Skeleton height={640} aria-busy="true" />}>
          <Canvas
            steps={plan.steps}
            onChange={onChange}
            error={error}
            trigger={triggerName ? `${triggerType}: ${triggerName}` : triggerType}
            numbers={numbers}
            label={t.automations.workflow}
          />
        </Suspense>
      )}
    </Section>
  );
}
