import { Button, Group, NativeSelect, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { identityOf, withEntry } from '../../app/identity';
import { t } from '../../text';
import { STEP_TYPES, type Step, newStep, moved } from './step';
import { disabledAtEnd } from './moves';
import { StepBranches, type StepsProps } from './step-branches';
import { StepCard, stepName } from './step-card';

/** The steps as a list. All functions are available by keyboard. */
export function StepList({ steps, onChange, error, path, label }: StepsProps) {
  const [type, setType] = useState<(typeof STEP_TYPES)[number]>('SEND_EMAIL');
  const replace = (index: number, step: Step) => onChange(withEntry(steps, index, step));
  return (
    <Stack gap="xs" role="group" aria-label={label}>
      {steps.length === 0 && (
        <Text size="sm" c="dimmed">
          {t.steps.empty}
        </Text>
      )}
      {steps.map((step, index) => (
        <StepItem
          key={identityOf(step)}
          step={step}
          path={`${path}[${index}]`}
          number={index + 1}
          last={steps.length}
          error={error}
          onChange={(next) => replace(index, next)}
          onMove={(by) => onChange(moved(steps, index, by))}
          onRemove={() => onChange(steps.filter((_, at) => at !== index))}
        />
      ))}
      <Group align="flex-end" gap="xs">
        <NativeSelect
          size="xs"
          aria-label={t.steps.addTo(label)}
          value={type}
          onChange={(event) => setType(STEP_TYPES.find((each) => each === event.currentTarget.value) ?? 'SEND_EMAIL')}
          data={STEP_TYPES.map((each) => ({ value: each, label: t.steps.types[each] ?? each }))}
        />
        <Button size="xs" variant="default" onClick={() => onChange([...steps, newStep(type)])}>
          {t.steps.add}
        </Button>
      </Group>
    </Stack>
  );
}

interface StepItemProps {
  step: Step;
  path: string;
  number: number;
  last: number;
  error: unknown;
  onChange: (step: Step) => void;
  onMove: (by: -1 | 1) => void;
  onRemove: () => void;
}

function StepItem({ step, path, number, last, error, onChange, onMove, onRemove }: StepItemProps) {
  return (
    <StepCard
      step={step}
      path={path}
      title={`${number}. ${stepName(step)}`}
      label={`${t.steps.step(String(number))}: ${stepName(step)}`}
      error={error}
      onChange={onChange}
      actions={
        <>
          <Button
            size="compact-xs"
            variant="default"
            {...disabledAtEnd(number === 1)}
            onClick={() => number > 1 && onMove(-1)}
            aria-label={`${t.steps.up}: ${number}`}
          >
            ↑
          </Button>
          <Button
            size="compact-xs"
            variant="default"
            {...disabledAtEnd(number === last)}
            onClick={() => number < last && onMove(1)}
            aria-label={`${t.steps.down}: ${number}`}
          >
            ↓
          </Button>
          <Button size="compact-xs" variant="default" onClick={onRemove} aria-label={`${t.steps.remove}: ${number}`}>
            ✕
          </Button>
        </>
      }
    >
      <StepBranches step={step} onChange={onChange} error={error} path={path} Steps={StepList} />
    </StepCard>
  );
}
