import { Button, Text } from '@mantine/core';
import { useEffect, useRef } from 'react';
import { t } from '../../text';
import type { Move, Standing } from './arrangement';
import { Moves } from './moves';
import type { Step } from './step';
import { StepArms } from './step-arms';
import { StepCard, stepName } from './step-card';

interface Props {
  steps: readonly Step[];
  standing: Standing;
  where: string;
  error: unknown;
  onChange: (step: Step) => void;
  onMove: (move: Move) => void;
  onRemove: () => void;
  onClose: () => void;
}

/** The form of the step that is chosen on the canvas. It takes the focus when it opens, and gives it back on Escape. */
export function StepPanel({ steps, standing, where, error, onChange, onMove, onRemove, onClose }: Props) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => place.current?.focus(), []);
  const { step } = standing;
  return (
    <div ref={place} className="canvas-panel" tabIndex={-1} onKeyDown={(event) => event.key === 'Escape' && onClose()}>
      <StepCard
        step={step}
        place={standing.place}
        title={stepName(step)}
        label={t.canvas.form(stepName(step))}
        error={error}
        onChange={onChange}
        actions={
          <>
            <Moves steps={steps} standing={standing} onMove={onMove} />
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
          {where}
        </Text>
        <StepArms step={step} onChange={onChange} error={error} place={standing.place} />
      </StepCard>
    </div>
  );
}
