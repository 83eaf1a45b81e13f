import { Button, Checkbox, Group, NumberInput, Stack, Text, TextInput } from '@mantine/core';
import type { Schemas, Tagged } from '../../api/client';
import { problemOf } from '../../api/failure';
import { changesOf } from '../../app/draft';
import { useProject } from '../../app/project';
import { namesOf } from '../../app/field-labels';
import { UnsavedChangesGuard } from '../../components/draft';
import { Section } from '../../components/page';
import { NotSaved } from '../../components/record';
import { t } from '../../text';
import { useChannels } from './channels-record';

const FIELD_NAMES = namesOf({
  quietHours: t.channels.quiet,
  'quietHours.start': t.channels.start,
  'quietHours.end': t.channels.end,
  'quietHours.timezone': t.channels.zone,
  frequencyCap: t.channels.cap,
  'frequencyCap.max': t.channels.capMax,
  'frequencyCap.within': t.channels.capWithin,
  knownUsersOnly: t.channels.knownUsersOnly,
});

type Channels = Schemas['Channels'];

interface LimitFields {
  quietHours: NonNullable<Channels['quietHours']> | null;
  frequencyCap: NonNullable<Channels['frequencyCap']> | null;
  knownUsersOnly: boolean;
}

/** Settings that apply to all channels: quiet hours, frequency cap and recipients. */
export function Limits({ channels }: { channels: Tagged<Channels> }) {
  const { isAdmin } = useProject();
  const { edited } = useChannels<LimitFields>({
    channels,
    fieldsOf: ({ quietHours, frequencyCap, knownUsersOnly }) => ({
      quietHours: quietHours ?? null,
      frequencyCap: frequencyCap ?? null,
      knownUsersOnly: knownUsersOnly ?? false,
    }),
    inputOf: changesOf,
    storedAs: (fields) => fields,
  });
  const { draft, saving } = edited;
  const { quietHours, frequencyCap, knownUsersOnly } = draft.value;
  const quiet = (change: Partial<NonNullable<Channels['quietHours']>>) =>
    quietHours && draft.set({ quietHours: { ...quietHours, ...change } });
  const cap = (change: Partial<NonNullable<Channels['frequencyCap']>>) =>
    frequencyCap && draft.set({ frequencyCap: { ...frequencyCap, ...change } });
  return (
    <Stack gap="xl">
      <UnsavedChangesGuard when={draft.isDirty} />
      <Section title={t.channels.quiet}>
        <Text size="sm" c="dimmed" mb="xs">
          {t.channels.quietHint}
        </Text>
        <Checkbox
          disabled={!isAdmin}
          label={t.channels.quietOn}
          checked={quietHours !== null}
          onChange={(event) =>
            draft.set({
              quietHours: event.currentTarget.checked ? { start: '22:00', end: '08:00', timezone: 'user' } : null,
            })
          }
        />
        {quietHours && (
          <Group mt="xs" align="flex-end">
            <TextInput
              disabled={!isAdmin}
              label={t.channels.start}
              value={quietHours.start}
              onChange={(event) => quiet({ start: event.currentTarget.value })}
              error={problemOf(saving.error, 'quietHours.start')}
            />
            <TextInput
              disabled={!isAdmin}
              label={t.channels.end}
              value={quietHours.end}
              onChange={(event) => quiet({ end: event.currentTarget.value })}
              error={problemOf(saving.error, 'quietHours.end')}
            />
            <TextInput
              disabled={!isAdmin}
              label={t.channels.zone}
              description={t.channels.zoneHint}
              value={quietHours.timezone ?? ''}
              onChange={(event) => quiet({ timezone: event.currentTarget.value })}
              error={problemOf(saving.error, 'quietHours.timezone')}
            />
          </Group>
        )}
      </Section>
      <Section title={t.channels.cap}>
        <Text size="sm" c="dimmed" mb="xs">
          {t.channels.capHint}
        </Text>
        <Checkbox
          disabled={!isAdmin}
          label={t.channels.capOn}
          checked={frequencyCap !== null}
          onChange={(event) =>
            draft.set({ frequencyCap: event.currentTarget.checked ? { max: 3, within: '7d' } : null })
          }
        />
        {frequencyCap && (
          <Group mt="xs" align="flex-end">
            <NumberInput
              disabled={!isAdmin}
              label={t.channels.capMax}
              value={frequencyCap.max}
              onChange={(max) => cap({ max: Number(max) })}
              error={problemOf(saving.error, 'frequencyCap.max')}
            />
            <TextInput
              disabled={!isAdmin}
              label={t.channels.capWithin}
              value={frequencyCap.within}
              onChange={(event) => cap({ within: event.currentTarget.value })}
              error={problemOf(saving.error, 'frequencyCap.within')}
            />
          </Group>
        )}
      </Section>
      <Section title={t.channels.recipients}>
        <Checkbox
          disabled={!isAdmin}
          label={t.channels.knownUsersOnly}
          description={t.channels.knownUsersOnlyHint}
          checked={knownUsersOnly}
          onChange={(event) => draft.set({ knownUsersOnly: event.currentTarget.checked })}
        />
      </Section>
      <NotSaved edited={edited} nameField={FIELD_NAMES} />
      {isAdmin && (
        <Group>
          <Button onClick={edited.save} loading={saving.isPending} disabled={!draft.isDirty}>
            {t.save}
          </Button>
        </Group>
      )}
    </Stack>
  );
}
