import { Button, Group, NativeSelect, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { identityOf, withEntry } from '../../app/identity';
import { t } from '../../text';
import { STEP_TYPES, type Step, freshStep, moved } from './step';
import { reaching } from './moves';
import { StepArms, type StepsProps } from './step-arms';
import { StepCard, stepName } from './step-card';

/** Steps under each other: the model that is edited. All of it is reached by keyboard. */
export function StepList({ steps, onChange, error, place, label }: StepsProps) {
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
        <One
          key={identityOf(step)}
          step={step}
          place={`${place}[${index}]`}
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
        <Button size="xs" variant="default" onClick={() => onChange([...steps, freshStep(type)])}>
          {t.steps.add}
        </Button>
      </Group>
    </Stack>
  );
}

interface OneProps {
  step: Step;
  place: string;
  number: number;
  last: number;
  error: unknown;
  onChange: (step: Step) => void;
  onMove: (by: -1 | 1) => void;
  onRemove: () => void;
}

function One({ step, place, number, last, error, onChange, onMove, onRemove }: OneProps) {
  return (
    <StepCard
      step={step}
      place={place}
      title={`${number}. ${stepName(step)}`}
      label={`${t.steps.step(String(number))}: ${stepName(step)}`}
      error={error}
      onChange={onChange}
      actions={
        <>
          <Button
            size="compact-xs"
            variant="default"
            {...reaching(number === 1)}
            onClick={() => number > 1 && onMove(-1)}
            aria-label={`${t.steps.up}: ${number}`}
          >
            ↑
          </Button>
          <Button
            size="compact-xs"
            variant="default"
            {...reaching(number === last)}
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
      <StepArms step={step} onChange={onChange} error={error} place={place} Steps={StepList} />
    </StepCard>
  );
}
