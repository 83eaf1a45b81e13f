import type { Channel } from '../../app/values';
import { type Step, formatDuration } from './step';

/** The channel of each step type that sends a message. */
export const CHANNEL_OF_STEP: Record<string, Channel> = {
  SEND_EMAIL: 'EMAIL',
  SEND_PUSH: 'PUSH',
  SEND_IN_APP: 'IN_APP',
  SEND_SMS: 'SMS',
};

function join(...parts: unknown[]): string {
  return parts.filter((part) => typeof part === 'string' && part !== '').join(' · ');
}

/** Summarizes a step in one line; empty for steps that refer to a template or an automation, see {@link StepSubject}. */
export function detailOf(step: Step): string {
  switch (step.type) {
    case 'WAIT':
      return formatDuration(step.delay);
    case 'WAIT_UNTIL':
      return join(step.time, step.property, formatDuration(step.offset));
    case 'WAIT_FOR_EVENT':
      return join(step.event, formatDuration(step.timeout));
    case 'UPDATE_USER':
      return typeof step.properties === 'object' && step.properties !== null
        ? Object.keys(step.properties).join(', ')
        : '';
    case 'TRACK_EVENT':
      return join(step.event);
    case 'WEBHOOK':
      return join(step.name, step.url);
    default:
      return '';
  }
}
