import { Checkbox, Group, Stack, TextInput } from '@mantine/core';
import { problemOf } from '../../api/failure';
import { t } from '../../text';
import { OWN_ZONE } from './clock';
import type { PartProps } from './wizard-audience';

export function Schedule({ plan, zone, set, error }: PartProps) {
  const { recurrence } = plan;
  return (
    <Stack pt="md">
      <TextInput
        type="datetime-local"
        label={t.campaigns.at}
        description={plan.sendInUserTimezone ? t.campaigns.atProjectHint(zone) : t.campaigns.atHint(OWN_ZONE)}
        value={plan.scheduledAt}
        onChange={(event) => set({ scheduledAt: event.currentTarget.value })}
        error={problemOf(error, 'scheduledAt')}
      />
      <Checkbox
        label={t.campaigns.userTime}
        checked={plan.sendInUserTimezone}
        onChange={(event) => set({ sendInUserTimezone: event.currentTarget.checked })}
        error={problemOf(error, 'sendInUserTimezone')}
      />
      <TextInput
        inputMode="numeric"
        label={t.campaigns.throttle}
        description={t.campaigns.throttleHint}
        value={plan.throttlePerMinute}
        onChange={(event) => set({ throttlePerMinute: event.currentTarget.value.replace(/\D/g, '') })}
        error={problemOf(error, 'throttlePerMinute')}
      />
      <Checkbox
        label={t.campaigns.recurring}
        checked={recurrence !== null}
        onChange={(event) =>
          set({ recurrence: event.currentTarget.checked ? { cron: '0 9 * * 1', timezone: OWN_ZONE } : null })
        }
      />
      {recurrence && (
        <Group align="flex-end">
          <TextInput
            label={t.campaigns.cron}
            value={recurrence.cron}
            onChange={(event) => set({ recurrence: { ...recurrence, cron: event.currentTarget.value } })}
            error={problemOf(error, 'recurrence.cron')}
          />
          <TextInput
            label={t.campaigns.cronZone}
            value={recurrence.timezone ?? ''}
            onChange={(event) => set({ recurrence: { ...recurrence, timezone: event.currentTarget.value } })}
            error={problemOf(error, 'recurrence.timezone')}
          />
        </Group>
      )}
    </Stack>
  );
}
