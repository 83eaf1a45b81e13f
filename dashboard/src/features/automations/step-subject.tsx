import { useTemplateChoices } from '../templates/template-choices';
import type { Channel } from '../../app/values';
import { useAutomationChoices } from './automation-choices';
import type { Step } from './step';
import { CHANNEL_OF_STEP } from './step-detail';

/** The name of the template or automation that a step refers to. */
export function StepSubject({ step }: { step: Step }) {
  const channel = CHANNEL_OF_STEP[step.type];
  if (channel) return <TemplateName channel={channel} id={String(step.templateId ?? '')} />;
  return step.type === 'START_AUTOMATION' ? <AutomationName id={String(step.automationId ?? '')} /> : null;
}

function TemplateName({ channel, id }: { channel: Channel; id: string }) {
  const { options } = useTemplateChoices(channel, [id]);
  return id === '' ? null : options.find(({ value }) => value === id)?.label;
}

function AutomationName({ id }: { id: string }) {
  const { options } = useAutomationChoices([id]);
  return id === '' ? null : options.find(({ value }) => value === id)?.label;
}
