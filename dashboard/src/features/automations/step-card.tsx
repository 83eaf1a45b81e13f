import { Group, Paper, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { t } from '../../text';
import { stepFieldName } from './field-names';
import type { Step } from './step';
import { StepFields } from './step-fields';
import { problemsNotInRules } from './step-problems';

export function stepName(step: Step): string {
  return t.steps.types[step.type] ?? step.type;
}

interface Props {
  step: Step;
  path: string;
  title: string;
  /** Accessible name. */
  label: string;
  error: unknown;
  onChange: (step: Step) => void;
  actions: ReactNode;
  /** Its branches. */
  children: ReactNode;
}

/** The form of a step. */
export function StepCard({ step, path, title, label, error, onChange, actions, children }: Props) {
  return (
    <Paper withBorder p="sm" role="group" aria-label={label}>
      <Stack gap="xs">
        <Group justify="space-between" gap="xs">
          <Text fw={600} size="sm">
            {title}
          </Text>
          <Group gap={4}>{actions}</Group>
        </Group>
        <StepFields step={step} onChange={onChange} error={error} path={path} />
        {problemsNotInRules(error, path).map(({ field, message }) => (
          <Text key={field + message} size="sm" c="var(--mantine-color-error)" role="alert">
            {stepFieldName(field.slice(path.length + 1))} {message}
          </Text>
        ))}
        {children}
      </Stack>
    </Paper>
  );
}
