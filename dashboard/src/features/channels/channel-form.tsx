import {
  Alert,
  Button,
  Group,
  NativeSelect,
  PasswordInput,
  SimpleGrid,
  Stack,
  TextInput,
  Textarea,
} from '@mantine/core';
import type { Schemas, Tagged } from '../../api/client';
import { problemOf } from '../../api/failure';
import { useProject } from '../../app/project';
import { Ask } from '../../components/ask';
import { KeepChanges } from '../../components/draft';
import { NotSaved } from '../../components/record';
import { Status } from '../../components/status';
import { t } from '../../text';
import { useChannels } from './channels-record';
import { type Field, type Values, changesOf, valuesOf } from './fields';

interface Props {
  fields: Field[];
  /** Which of the channels the fields are about. */
  channel: 'email' | 'push' | 'sms';
  channels: Tagged<Schemas['Channels']>;
}

export function ChannelForm({ fields, channel, channels }: Props) {
  const { isAdmin } = useProject();
  const { configured, error: words } = channels.value[channel];
  const { edited, change } = useChannels<Values>({
    channels,
    fieldsOf: (told) => valuesOf(fields, told[channel]),
    inputOf: (base, values) => changesOf(fields, base, values),
    // A secret is gone from the page as soon as it is stored.
    storedAs: (values) => ({
      ...values,
      ...Object.fromEntries(fields.filter(({ kind }) => kind.startsWith('secret')).map(({ name }) => [name, ''])),
    }),
  });
  const { draft, saving } = edited;
  const input = (field: Field) => {
    const value = draft.value[field.name] ?? '';
    const common = { label: field.label, disabled: !isAdmin, error: problemOf(saving.error, field.name) };
    const set = (next: string) => draft.set({ [field.name]: next });
    switch (field.kind) {
      case 'choice':
        return (
          <NativeSelect
            {...common}
            value={value}
            onChange={(event) => set(event.currentTarget.value)}
            data={field.options}
          />
        );
      case 'secret':
        return (
          <PasswordInput
            {...common}
            description={configured ? t.channels.secretKept : t.channels.secretEmpty}
            autoComplete="new-password"
            value={value}
            onChange={(event) => set(event.currentTarget.value)}
            visibilityToggleButtonProps={{ 'aria-label': t.signIn.reveal }}
          />
        );
      case 'secret-text':
        return (
          <Textarea
            {...common}
            description={configured ? t.channels.secretKept : t.channels.secretEmpty}
            autosize
            minRows={2}
            maxRows={8}
            spellCheck={false}
            value={value}
            onChange={(event) => set(event.currentTarget.value)}
          />
        );
      default:
        return (
          <TextInput
            {...common}
            inputMode={field.kind === 'number' ? 'numeric' : undefined}
            value={value}
            onChange={(event) => set(event.currentTarget.value)}
          />
        );
    }
  };
  const secrets = fields.filter(({ kind }) => kind.startsWith('secret'));
  return (
    <Stack>
      <KeepChanges when={draft.isDirty} />
      <Group>
        <Status of={configured ? 'on' : 'off'} label={configured ? t.channels.configured : t.channels.notConfigured} />
      </Group>
      {words && (
        <Alert color="red" variant="outline" title={t.channels.last} role="note">
          {words}
        </Alert>
      )}
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        {fields.map((field) => (
          <div key={field.name}>{input(field)}</div>
        ))}
      </SimpleGrid>
      <NotSaved edited={edited} />
      {isAdmin && (
        <Group>
          <Button onClick={edited.save} loading={saving.isPending} disabled={!draft.isDirty}>
            {t.save}
          </Button>
          {configured &&
            secrets.map((field) => (
              <Ask
                key={field.name}
                label={t.channels.clearSecret(field.label)}
                title={t.channels.clearSecret(field.label)}
                act={() => change({ [field.name]: null })}
              >
                {t.channels.clearText}
              </Ask>
            ))}
        </Group>
      )}
    </Stack>
  );
}
