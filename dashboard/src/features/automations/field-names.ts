import { type FieldLabels, type NameField, fieldName, joinNames } from '../../app/field-labels';
import { t } from '../../text';
import { everyStep } from './arrangement';
import type { Plan } from './plan';
import type { Step } from './step';
import { type NamedStep, stepLabel } from './step-place';

const STEP_LABELS: FieldLabels = {
  type: t.canvas.stepType,
  templateId: t.steps.template,
  subscriptionGroupId: t.steps.group,
  delay: t.steps.delay,
  timeout: t.steps.timeout,
  time: t.steps.time,
  property: t.canvas.dateProperty,
  offset: t.steps.offset,
  event: t.steps.event,
  where: t.steps.where,
  properties: t.steps.properties,
  url: t.steps.url,
  body: t.steps.body,
  name: t.steps.name,
  automationId: t.steps.automation,
  then: t.steps.then,
  else: t.steps.elseOfAny,
  branches: t.steps.paths,
  'branches[]': t.steps.path,
  'branches[].weight': t.steps.weight,
  'branches[].rules': t.steps.pathRules,
  'branches[].steps': t.automations.steps,
};

const LABELS: FieldLabels = {
  name: t.automations.name,
  triggerType: t.automations.trigger,
  triggerEvent: t.automations.event,
  triggerSegmentId: t.automations.segment,
  triggerFilter: t.automations.filter,
  triggerDate: t.automations.trigger,
  'triggerDate.property': t.automations.dateProperty,
  'triggerDate.offset': t.automations.dateOffset,
  'triggerDate.time': t.automations.dateTime,
  'triggerDate.repeat': t.automations.dateRepeat,
  entryRules: t.automations.entry,
  exitRules: t.automations.exit,
  reentry: t.automations.reentry,
  goal: t.automations.goal,
  'goal.event': t.automations.event,
  'goal.within': t.automations.goalWithin,
  'goal.where': t.automations.goalWhere,
  steps: t.automations.workflow,
};

const IN_STEP = /^(steps\[\d+\](?:\.(?:then|else|branches\[\d+\]\.steps)\[\d+\])*)(?:\.(.+))?$/;

/** Names a field of a step by its path in the step. */
export function stepFieldName(field: string): string {
  return fieldName(field, STEP_LABELS) ?? field;
}

/** Returns all steps with their paths, as {@link stepLabel} needs them. */
export function namedSteps(steps: readonly Step[]): NamedStep[] {
  return [...everyStep(steps)].map(({ step, path }) => ({
    step: path,
    type: step.type,
    name: typeof step.name === 'string' ? step.name : null,
  }));
}

/** Returns a function that names the fields of an automation. */
export function automationFieldNames({ steps, triggerType }: Pick<Plan, 'steps' | 'triggerType'>): NameField {
  const labels = triggerType === 'WEBHOOK' ? { ...LABELS, triggerEvent: t.automations.webhook } : LABELS;
  return (field) => {
    const [, path, rest] = IN_STEP.exec(field) ?? [];
    if (path === undefined) return fieldName(field, labels);
    const known = namedSteps(steps);
    const label = stepLabel(known.find(({ step }) => step === path) ?? { step: path, type: null }, known);
    return rest === undefined ? label : joinNames(label, stepFieldName(rest));
  };
}
