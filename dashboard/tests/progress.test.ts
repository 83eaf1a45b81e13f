import { describe, expect, test } from 'vitest';
import { localServer } from '../src/features/channels/mailbox';
import {
  type Progress,
  STEPS,
  sampleUserId,
  completedSteps,
  selectAutomation,
  nextStepOf,
  triggerEventOf,
} from '../src/features/overview/progress';

const automation = (id: string, active: boolean, triggerType: 'EVENT' | 'SEGMENT_ENTER' = 'EVENT') => ({
  id,
  active,
  triggerType,
  triggerEvent: triggerType === 'EVENT' ? `${id}_event` : null,
});
const unset = { configured: false };

const empty: Progress = {
  channels: {
    email: { ...unset, provider: null },
    push: { ...unset, sharedApp: false },
    sms: unset,
    inApp: { configured: true },
  } as Progress['channels'],
  templates: 0,
  automation: null,
  users: [],
  events: 0,
  message: null,
};

describe('first steps', () => {
  test('are completed one by one as the project is set up', () => {
    const changes: Array<Partial<Progress>> = [
      { channels: { ...empty.channels, sms: { configured: true } } as Progress['channels'] },
      { templates: 1 },
      { automation: automation('a', true) },
      { users: [{ externalId: 'ada', email: null }] },
      { events: 1 },
      { message: { id: 'm', status: 'sent' } },
    ];
    let progress = empty;
    for (const [index, change] of changes.entries()) {
      progress = { ...progress, ...change };
      expect(STEPS.filter((step) => completedSteps(progress)[step])).toEqual(STEPS.slice(0, index + 1));
    }
    expect(completedSteps({ ...empty, automation: automation('a', false) }).automation).toBe(false);
    for (const status of ['queued', 'failed', 'suppressed'] as const)
      expect(completedSteps({ ...empty, message: { id: 'm', status } }).message).toBe(false);
  });

  test('skip the channel for members, because only admins can set it up', () => {
    expect(nextStepOf(completedSteps(empty), true)).toBe('channel');
    expect(nextStepOf(completedSteps(empty), false)).toBe('template');
    expect(nextStepOf(completedSteps({ ...empty, templates: 1 }), false)).toBe('automation');
    const all = { channel: true, template: true, automation: true, user: true, event: true, message: true };
    expect(nextStepOf(all, true)).toBeUndefined();
    expect(nextStepOf({ ...all, channel: false }, false)).toBeUndefined();
  });

  test('select an active automation with an event trigger', () => {
    const [idle, bySegment, byEvent] = [
      automation('idle', false),
      automation('segment', true, 'SEGMENT_ENTER'),
      automation('event', true),
    ];
    expect(selectAutomation([idle, bySegment, byEvent])).toBe(byEvent);
    expect(selectAutomation([idle, bySegment])).toBe(bySegment);
    expect(selectAutomation([idle])).toBe(idle);
    expect(selectAutomation([])).toBeNull();
    expect([byEvent, bySegment, null].map(triggerEventOf)).toEqual(['event_event', undefined, undefined]);
  });

  test('suggest a user with an email address', () => {
    const users = [
      { externalId: null, email: 'x@example.com' },
      { externalId: 'bo', email: null },
      { externalId: 'ada', email: 'ada@example.com' },
    ];
    expect(sampleUserId(users)).toBe('ada');
    expect(sampleUserId(users.slice(0, 2))).toBe('bo');
    expect(sampleUserId(users.slice(0, 1))).toBeUndefined();
  });
});

test('local mail server is detected by its host, and the mailbox by the sender', () => {
  const email = {
    configured: true,
    provider: 'SMTP',
    fromEmail: 'hello@rekindle.localhost',
    smtpHost: '127.0.0.1',
    smtpPort: 2525,
  };
  expect(localServer(email)).toEqual({ server: '127.0.0.1:2525', isMailbox: true });
  expect(localServer({ ...email, smtpPort: null })).toEqual({ server: '127.0.0.1', isMailbox: true });
  for (const fromEmail of ['hello@example.com', null])
    expect(localServer({ ...email, fromEmail })).toEqual({ server: '127.0.0.1:2525', isMailbox: false });
  for (const other of [{ smtpHost: 'smtp.example.com' }, { smtpHost: null }, { provider: 'MAILPROVIDER' }])
    expect(localServer({ ...email, ...other })).toBeNull();
});
