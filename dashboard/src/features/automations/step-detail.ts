import type { Channel } from '../../app/values';
import { type Step, shownDuration } from './step';

/** The channels that steps send by. */
export const SENDS: Record<string, Channel> = {
  SEND_EMAIL: 'EMAIL',
  SEND_PUSH: 'PUSH',
  SEND_IN_APP: 'IN_APP',
  SEND_SMS: 'SMS',
};

function joined(...parts: unknown[]): string {
  return parts.filter((part) => typeof part === 'string' && part !== '').join(' · ');
}

/** What a step is about, in a line; of one that names a template or an automation nothing, for those are known by an id. */
export function detailOf(step: Step): string {
  switch (step.type) {
    case 'WAIT':
      return shownDuration(step.delay);
    case 'WAIT_UNTIL':
      return joined(step.time, step.property, shownDuration(step.offset));
    case 'WAIT_FOR_EVENT':
      return joined(step.event, shownDuration(step.timeout));
    case 'UPDATE_USER':
      return typeof step.properties === 'object' && step.properties !== null
        ? Object.keys(step.properties).join(', ')
        : '';
    case 'TRACK_EVENT':
      return joined(step.event);
    case 'WEBHOOK':
      return joined(step.name, step.url);
    default:
      return '';
  }
}
