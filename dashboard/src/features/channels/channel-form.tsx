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
import { namesOf } from '../../app/field-labels';
import { ConfirmButton } from '../../components/confirm-button';
import { UnsavedChangesGuard } from '../../components/draft';
import { NotSaved } from '../../components/record';
import { Status } from '../../components/status';
import { t } from '../../text';
import { useChannels } from './channels-record';
import { EMAIL, type Field, PUSH, SMS, type Values, changesOf, valuesOf } from './fields';

const FIELD_NAMES = namesOf(Object.fromEntries([...EMAIL, ...PUSH, ...SMS].map(({ name, label }) => [name, label])));

interface Props {
  fields: Field[];
  /** The channel that the fields configure. */
  channel: 'email' | 'push' | 'sms';
  channels: Tagged<Schemas['Channels']>;
}

export function ChannelForm({ fields, channel, channels }: Props) {
  const { isAdmin } = useProject();
  const { configured, error: providerError } = channels.value[channel];
  const { edited, change } = useChannels<Values>({
    channels,
    fieldsOf: (stored) => valuesOf(fields, stored[channel]),
    inputOf: (base, values) => changesOf(fields, base, values),
    // Clear secrets from the page as soon as they are stored.
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
      <UnsavedChangesGuard when={draft.isDirty} />
      <Group>
        <Status of={configured ? 'on' : 'off'} label={configured ? t.channels.configured : t.channels.notConfigured} />
      </Group>
      {providerError && (
        <Alert color="red" variant="outline" title={t.channels.lastError} role="note">
          {providerError}
        </Alert>
      )}
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        {fields.map((field) => (
          <div key={field.name}>{input(field)}</div>
        ))}
      </SimpleGrid>
      <NotSaved edited={edited} nameField={FIELD_NAMES} />
      {isAdmin && (
        <Group>
          <Button onClick={edited.save} loading={saving.isPending} disabled={!draft.isDirty}>
            {t.save}
          </Button>
          {configured &&
            secrets.map((field) => (
              <ConfirmButton
                key={field.name}
                label={t.channels.clearSecret(field.label)}
                title={t.channels.clearSecret(field.label)}
                action={() => change({ [field.name]: null })}
              >
                {t.channels.clearText}
              </ConfirmButton>
            ))}
        </Group>
      )}
    </Stack>
  );
}
