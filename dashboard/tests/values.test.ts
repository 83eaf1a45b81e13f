import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import * as values from '../src/app/values';

const document = readFileSync(new URL('../../openapi.yaml', import.meta.url), 'utf8');

/** Returns the values of a schema's `enum`, which must be on one line. */
function enumValues(schema: string): string[] {
  const found = new RegExp(`^    ${schema}:(?:\\n      .*)*?(?:\\n      | \\{ )enum: \\[([^\\]]+)\\]`, 'm').exec(
    document,
  );
  if (!found?.[1]) throw new Error(`${schema} was not found in openapi.yaml in the form that this test expects`);
  return found[1].split(',').map((value) => value.trim());
}

test('enumerations match those of the API', () => {
  expect(enumValues('Channel')).toEqual([...values.CHANNELS]);
  expect(enumValues('MessageStatus')).toEqual([...values.MESSAGE_STATUSES]);
  expect(enumValues('RunStatus')).toEqual([...values.RUN_STATUSES]);
  expect(enumValues('CampaignStatus')).toEqual([...values.CAMPAIGN_STATUSES]);
  expect(enumValues('SuppressionReason')).toEqual([...values.SUPPRESSION_REASONS]);
  expect(enumValues('Platform')).toEqual([...values.PLATFORMS]);
  expect(enumValues('WebhookDeliveryStatus')).toEqual([...values.DELIVERY_STATUSES]);
});
