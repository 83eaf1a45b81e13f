import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import * as values from '../src/app/values';

const document = readFileSync(new URL('../../openapi.yaml', import.meta.url), 'utf8');

/** The words of a schema's `enum`, which stands on one line. */
function words(schema: string): string[] {
  const found = new RegExp(`^    ${schema}:(?:\\n      .*)*?(?:\\n      | \\{ )enum: \\[([^\\]]+)\\]`, 'm').exec(
    document,
  );
  if (!found?.[1]) throw new Error(`${schema} is not in the document as this test reads it`);
  return found[1].split(',').map((word) => word.trim());
}

test('the lists of the screens are those of the API', () => {
  expect(words('Channel')).toEqual([...values.CHANNELS]);
  expect(words('MessageStatus')).toEqual([...values.MESSAGE_STATUSES]);
  expect(words('RunStatus')).toEqual([...values.RUN_STATUSES]);
  expect(words('CampaignStatus')).toEqual([...values.CAMPAIGN_STATUSES]);
  expect(words('SuppressionReason')).toEqual([...values.SUPPRESSION_REASONS]);
  expect(words('Platform')).toEqual([...values.PLATFORMS]);
  expect(words('WebhookDeliveryStatus')).toEqual([...values.DELIVERY_STATUSES]);
});
