import { Box, Button, Group, NumberInput, Stack, Text } from '@mantine/core';
import type { ComponentType, ReactNode } from 'react';
import { identityOf, withEntry } from '../../app/identity';
import { t } from '../../text';
import type { Rule } from '../rules/rule';
import { RuleList } from '../rules/rule-list';
import type { Step } from './step';

/** A list of steps that can be edited. */
export interface StepsProps {
  steps: Step[];
  onChange: (steps: Step[]) => void;
  error: unknown;
  /** Where these steps are in what the API is sent. */
  place: string;
  /** What the list is, for screen readers. */
  label: string;
}

interface Props {
  step: Step;
  onChange: (step: Step) => void;
  error: unknown;
  place: string;
  /** Edits the steps of each branch; left out where they are drawn elsewhere. */
  Steps?: ComponentType<StepsProps>;
}

/** The ways that a step leads on by, each with steps of its own. */
export function StepArms({ step, onChange, error, place, Steps }: Props) {
  if (step.type === 'WAIT_FOR_EVENT') {
    return (
      Steps && (
        <>
          <Arm title={t.steps.then}>
            <Steps
              steps={step.then ?? []}
              onChange={(then) => onChange({ ...step, then })}
              error={error}
              place={`${place}.then`}
              label={t.steps.then}
            />
          </Arm>
          <Arm title={t.steps.else}>
            <Steps
              steps={step.else ?? []}
              onChange={(next) => onChange({ ...step, else: next })}
              error={error}
              place={`${place}.else`}
              label={t.steps.else}
            />
          </Arm>
        </>
      )
    );
  }
  if (!step.branches) return null;
  const arms = step.branches;
  const isBranch = step.type === 'BRANCH';
  type ArmOf = (typeof arms)[number];
  const replace = (index: number, change: Partial<ArmOf>) =>
    onChange({ ...step, branches: withEntry(arms, index, { ...(arms[index] as ArmOf), ...change }) });
  return (
    <>
      {arms.map((arm, index) => (
        <Arm key={identityOf(arm)} title={t.steps.arm(index + 1)}>
          <Stack gap="xs">
            {isBranch ? (
              <>
                <Text size="sm">{t.steps.armRules}</Text>
                <RuleList
                  rules={(arm.rules ?? []) as Rule[]}
                  onChange={(rules) => replace(index, { rules })}
                  error={error}
                  place={`${place}.branches[${index}].rules`}
                />
              </>
            ) : (
              <NumberInput
                size="xs"
                w={120}
                label={t.steps.weight}
                value={arm.weight}
                onChange={(weight) => replace(index, { weight: Number(weight) })}
              />
            )}
            {Steps && (
              <Steps
                steps={arm.steps}
                onChange={(steps) => replace(index, { steps })}
                error={error}
                place={`${place}.branches[${index}].steps`}
                label={t.steps.arm(index + 1)}
              />
            )}
            {arms.length > 1 && (
              <Group>
                <Button
                  size="compact-xs"
                  variant="default"
                  onClick={() => onChange({ ...step, branches: arms.filter((_, at) => at !== index) })}
                >
                  {t.steps.removeArm}
                </Button>
              </Group>
            )}
          </Stack>
        </Arm>
      ))}
      <Group>
        <Button
          size="compact-xs"
          variant="default"
          onClick={() =>
            onChange({ ...step, branches: [...arms, isBranch ? { rules: [], steps: [] } : { weight: 50, steps: [] }] })
          }
        >
          {t.steps.addArm}
        </Button>
      </Group>
      {isBranch && Steps && (
        <Arm title={t.steps.otherwise}>
          <Steps
            steps={step.else ?? []}
            onChange={(next) => onChange({ ...step, else: next })}
            error={error}
            place={`${place}.else`}
            label={t.steps.otherwise}
          />
        </Arm>
      )}
    </>
  );
}

function Arm({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Box pl="sm" style={{ borderLeft: '3px solid var(--mantine-color-ember-6)' }}>
      <Text size="sm" fw={500} mb={4}>
        {title}
      </Text>
      {children}
    </Box>
  );
}
