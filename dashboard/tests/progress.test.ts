import { describe, expect, test } from 'vitest';
import { localServer } from '../src/features/channels/mailbox';
import { type Found, STEPS, candidate, doneOf, leading, nextOf, startOf } from '../src/features/overview/progress';

const automation = (id: string, active: boolean, triggerType: 'EVENT' | 'SEGMENT_ENTER' = 'EVENT') => ({
  id,
  active,
  triggerType,
  triggerEvent: triggerType === 'EVENT' ? `${id}_came` : null,
});
const unset = { configured: false };

const nothing: Found = {
  channels: {
    email: { ...unset, provider: null },
    push: { ...unset, sharedApp: false },
    sms: unset,
    inApp: { configured: true },
  } as Found['channels'],
  templates: 0,
  automation: null,
  people: [],
  events: 0,
  message: null,
};

describe('the first steps', () => {
  test('are done one by one, as the project is', () => {
    const changes: Array<Partial<Found>> = [
      { channels: { ...nothing.channels, sms: { configured: true } } as Found['channels'] },
      { templates: 1 },
      { automation: automation('a', true) },
      { people: [{ externalId: 'ada', email: null }] },
      { events: 1 },
      { message: { id: 'm', status: 'sent' } },
    ];
    let found = nothing;
    for (const [index, change] of changes.entries()) {
      found = { ...found, ...change };
      expect(STEPS.filter((step) => doneOf(found)[step])).toEqual(STEPS.slice(0, index + 1));
    }
    expect(doneOf({ ...nothing, automation: automation('a', false) }).automation).toBe(false);
    for (const status of ['queued', 'failed', 'suppressed'] as const)
      expect(doneOf({ ...nothing, message: { id: 'm', status } }).message).toBe(false);
  });

  test('lead a MEMBER past the channel, which an ADMIN sets up', () => {
    expect(nextOf(doneOf(nothing), true)).toBe('channel');
    expect(nextOf(doneOf(nothing), false)).toBe('template');
    expect(nextOf(doneOf({ ...nothing, templates: 1 }), false)).toBe('automation');
    const all = { channel: true, template: true, automation: true, person: true, event: true, message: true };
    expect(nextOf(all, true)).toBeUndefined();
    expect(nextOf({ ...all, channel: false }, false)).toBeUndefined();
  });

  test('go on with an automation that an event would start', () => {
    const [idle, bySegment, byEvent] = [
      automation('idle', false),
      automation('segment', true, 'SEGMENT_ENTER'),
      automation('event', true),
    ];
    expect(leading([idle, bySegment, byEvent])).toBe(byEvent);
    expect(leading([idle, bySegment])).toBe(bySegment);
    expect(leading([idle])).toBe(idle);
    expect(leading([])).toBeNull();
    expect([byEvent, bySegment, null].map(startOf)).toEqual(['event_came', undefined, undefined]);
  });

  test('are tried with somebody whom a mail reaches', () => {
    const people = [
      { externalId: null, email: 'x@example.com' },
      { externalId: 'bo', email: null },
      { externalId: 'ada', email: 'ada@example.com' },
    ];
    expect(candidate(people)).toBe('ada');
    expect(candidate(people.slice(0, 2))).toBe('bo');
    expect(candidate(people.slice(0, 1))).toBeUndefined();
  });
});

test('a mail server on this machine is told from one elsewhere, and the mailbox by its sender', () => {
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
