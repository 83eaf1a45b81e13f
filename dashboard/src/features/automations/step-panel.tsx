import { Button, Text } from '@mantine/core';
import { useEffect, useRef } from 'react';
import { t } from '../../text';
import type { Move, LocatedStep } from './arrangement';
import { Moves } from './moves';
import type { Step } from './step';
import { StepBranches } from './step-branches';
import { StepCard, stepName } from './step-card';

interface Props {
  steps: readonly Step[];
  located: LocatedStep;
  location: string;
  error: unknown;
  onChange: (step: Step) => void;
  onMove: (move: Move) => void;
  onRemove: () => void;
  onClose: () => void;
}

/** Form of the step that is selected on the canvas. It takes the focus when it opens and closes on Escape. */
export function StepPanel({ steps, located, location, error, onChange, onMove, onRemove, onClose }: Props) {
  const panel = useRef<HTMLDivElement>(null);
  useEffect(() => panel.current?.focus(), []);
  const { step } = located;
  return (
    <div ref={panel} className="canvas-panel" tabIndex={-1} onKeyDown={(event) => event.key === 'Escape' && onClose()}>
      <StepCard
        step={step}
        path={located.path}
        title={stepName(step)}
        label={t.canvas.editStep(stepName(step))}
        error={error}
        onChange={onChange}
        actions={
          <>
            <Moves steps={steps} located={located} onMove={onMove} />
            <Button size="compact-xs" variant="default" onClick={onRemove}>
              {t.steps.remove}
            </Button>
            <Button size="compact-xs" variant="default" onClick={onClose} aria-label={t.canvas.closeForm}>
              ✕
            </Button>
          </>
        }
      >
        <Text size="xs" c="dimmed">
          {location}
        </Text>
        <StepBranches step={step} onChange={onChange} error={error} path={located.path} />
      </StepCard>
    </div>
  );
}
