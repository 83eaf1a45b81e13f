import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { campaignReason, messageReason, runReason, stepDetails, textOf } from '../src/app/reasons';
import { WEBHOOK_EVENTS } from '../src/app/values';
import { t } from '../src/text';

const repository = new URL('../../', import.meta.url);
const openapi = readFileSync(new URL('openapi.yaml', repository), 'utf8');
const manual = readFileSync(new URL('docs/guide/messages.md', repository), 'utf8');

/** Returns the codes in the manual's table of reasons, by message status. */
function documentedReasons(): Array<[status: string, code: string]> {
  const table = manual.slice(manual.indexOf('## Reasons')).split('\n');
  const found: Array<[string, string]> = [];
  let status = '';
  for (const line of table.filter((each) => /^\| (`|\|)|^\| \|/.test(each))) {
    const [, first = '', second = ''] = line.split('|');
    status = /`([a-z]+)`/.exec(first)?.[1] ?? status;
    for (const [, code = ''] of second.matchAll(/`([a-z_]+)`/g)) found.push([status, code]);
  }
  return found;
}

/** Returns the values of a property's `enum`, which must be on one line. */
function enumOf(property: string, value: string): string[] {
  const found = new RegExp(`${property}:\\s+\\{? ?enum: \\[([^\\]]*\\b${value}\\b[^\\]]*)\\]`).exec(openapi)?.[1];
  if (!found) throw new Error(`${property} was not found in openapi.yaml in the form that this test expects`);
  return found.split(',').map((each) => each.trim());
}

describe('reasons of messages', () => {
  test('every documented code has a title and advice', () => {
    const documented = documentedReasons();
    expect(documented.length).toBeGreaterThan(30);
    expect(new Set(documented.map(([status]) => status))).toEqual(new Set(['queued', 'failed', 'suppressed']));
    const missing = documented.filter(([status, code]) => {
      const words = messageReason(code, status);
      return !words?.title || !words.advice;
    });
    expect(missing).toEqual([]);
    for (const code of ['campaign_cancelled', 'channel_not_supported', 'not_recorded', 'not_accepted'])
      expect(messageReason(code, 'failed')).not.toBeNull();
  });

  test('details after the colon are kept as they are', () => {
    expect(messageReason('gave_up: 421 4.7.0: try again later', 'failed')).toEqual({
      code: 'gave_up',
      title: 'All attempts failed',
      advice: 'Correct the cause, then retry the message.',
      details: '421 4.7.0: try again later',
    });
    expect(messageReason('no_address', 'suppressed')).toMatchObject({ title: 'No address', details: '' });
  });

  test('the status decides between two meanings of a code', () => {
    for (const code of ['outcome_unknown', 'user_not_found', 'no_address', 'no_token']) {
      expect(messageReason(code, 'queued')?.advice).toMatch(/^Nothing to do/);
      expect(messageReason(code, 'failed')?.advice).not.toMatch(/^Nothing to do/);
    }
  });

  test('unknown codes and free texts have no words', () => {
    for (const reason of ['', 'mailbox full', 'new_code', 'new_code: why', 'constructor: x', 'toString', ': no code'])
      expect(messageReason(reason, 'failed')).toBeNull();
  });

  test('codes in a campaign’s reason are replaced', () => {
    expect(campaignReason('3 failed. A recent failure: `rejected`. See its messages.')).toBe(
      '3 failed. A recent failure: “Rejected by the provider”. See its messages.',
    );
    expect(campaignReason('A recent failure: `new_code`.')).toBe('A recent failure: `new_code`.');
  });
});

describe('reasons of runs', () => {
  test('an end has a title, an unknown code none', () => {
    expect(runReason('exit_rules')?.title).toBe('Exit conditions matched');
    expect(runReason('rendering_limit')?.advice).toContain('templates');
    expect(runReason('new_code')).toBeNull();
  });

  test('details of a step are named; names and IDs of events are not taken for codes', () => {
    const details = (did: string, why: string | null, arm: string | null = null) => stepDetails({ did, arm, why });
    expect(details('skipped', 'too_late')).toBe('Too late: more than 24 hours after the wait ended');
    expect(details('took', 'no rules held', 'else')).toBe('No conditions matched');
    expect(details('failed', 'responded with 404')).toBe('responded with 404');
    expect(details('converted', 'loop')).toBe('Event “loop”');
    expect(details('took', 'chance', 'then')).toBe('Event ID: chance');
    expect(details('sent', null)).toBe('');
  });
});

test('every outcome and event type of the API has a name', () => {
  for (const outcome of enumOf('outcome', 'throttled')) expect(textOf(t.deviceOutcomes, outcome)).toBeTruthy();
  for (const did of enumOf('did', 'went_on')) expect(textOf(t.runs.outcomes, did)).toBeTruthy();
  for (const type of WEBHOOK_EVENTS.filter((each) => each !== '*')) expect(textOf(t.webhooks.types, type)).toBeTruthy();
  expect(textOf(t.webhooks.types, 'message.delivered')).toBe('Message delivered');
  expect(textOf(t.webhooks.types, 'message.new')).toBeUndefined();
});
