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
  /** Path of the list in the request body. */
  path: string;
  /** Accessible name of the list. */
  label: string;
}

interface Props {
  step: Step;
  onChange: (step: Step) => void;
  error: unknown;
  path: string;
  /** Editor for the steps of each branch; omitted on the canvas, which shows them itself. */
  Steps?: ComponentType<StepsProps>;
}

/** Editor for the branches of a step, each with its own steps. */
export function StepBranches({ step, onChange, error, path, Steps }: Props) {
  if (step.type === 'WAIT_FOR_EVENT') {
    return (
      Steps && (
        <>
          <BranchBox title={t.steps.then}>
            <Steps
              steps={step.then ?? []}
              onChange={(then) => onChange({ ...step, then })}
              error={error}
              path={`${path}.then`}
              label={t.steps.then}
            />
          </BranchBox>
          <BranchBox title={t.steps.else}>
            <Steps
              steps={step.else ?? []}
              onChange={(next) => onChange({ ...step, else: next })}
              error={error}
              path={`${path}.else`}
              label={t.steps.else}
            />
          </BranchBox>
        </>
      )
    );
  }
  if (!step.branches) return null;
  const { branches } = step;
  const isConditional = step.type === 'BRANCH';
  type BranchInput = (typeof branches)[number];
  const replace = (index: number, change: Partial<BranchInput>) =>
    onChange({ ...step, branches: withEntry(branches, index, { ...(branches[index] as BranchInput), ...change }) });
  return (
    <>
      {branches.map((branch, index) => (
        <BranchBox key={identityOf(branch)} title={t.steps.path(index + 1)}>
          <Stack gap="xs">
            {isConditional ? (
              <>
                <Text size="sm">{t.steps.pathRules}</Text>
                <RuleList
                  rules={(branch.rules ?? []) as Rule[]}
                  onChange={(rules) => replace(index, { rules })}
                  error={error}
                  path={`${path}.branches[${index}].rules`}
                />
              </>
            ) : (
              <NumberInput
                size="xs"
                w={120}
                label={t.steps.weight}
                value={branch.weight}
                onChange={(weight) => replace(index, { weight: Number(weight) })}
              />
            )}
            {Steps && (
              <Steps
                steps={branch.steps}
                onChange={(steps) => replace(index, { steps })}
                error={error}
                path={`${path}.branches[${index}].steps`}
                label={t.steps.path(index + 1)}
              />
            )}
            {branches.length > 1 && (
              <Group>
                <Button
                  size="compact-xs"
                  variant="default"
                  onClick={() => onChange({ ...step, branches: branches.filter((_, at) => at !== index) })}
                >
                  {t.steps.removePath}
                </Button>
              </Group>
            )}
          </Stack>
        </BranchBox>
      ))}
      <Group>
        <Button
          size="compact-xs"
          variant="default"
          onClick={() =>
            onChange({
              ...step,
              branches: [...branches, isConditional ? { rules: [], steps: [] } : { weight: 50, steps: [] }],
            })
          }
        >
          {t.steps.addPath}
        </Button>
      </Group>
      {isConditional && Steps && (
        <BranchBox title={t.steps.otherwise}>
          <Steps
            steps={step.else ?? []}
            onChange={(next) => onChange({ ...step, else: next })}
            error={error}
            path={`${path}.else`}
            label={t.steps.otherwise}
          />
        </BranchBox>
      )}
    </>
  );
}

function BranchBox({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Box pl="sm" style={{ borderLeft: '3px solid var(--mantine-color-ember-6)' }}>
      <Text size="sm" fw={500} mb={4}>
        {title}
      </Text>
      {children}
    </Box>
  );
}
