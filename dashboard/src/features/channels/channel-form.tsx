import { Alert, Button, Group, NativeSelect, PasswordInput, SimpleGrid, Stack, TextInput, Textarea } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { Ask } from '../../components/ask';
import { KeepChanges, useDraft } from '../../components/draft';
import { Failure } from '../../components/failure';
import { Status } from '../../components/status';
import { t } from '../../text';
import { type Field, type Values, changesOf, valuesOf } from './fields';

interface Props {
  fields: Field[];
  configured: boolean;
  /** What the API tells of the channel. */
  told: object;
  /** The provider's last words about a wrong configuration. */
  error?: string;
}

export function ChannelForm({ fields, configured, told, error: words }: Props) {
  const { projectId, isAdmin } = useProject();
  const client = useQueryClient();
  const draft = useDraft<Values>(valuesOf(fields, told));
  const again = () => void client.invalidateQueries({ queryKey: [projectId, 'channels'] });
  const saving = useMutation({
    mutationFn: (values: Values) => read(api.PUT('/channels', { body: changesOf(fields, draft.base, values) })),
    onSuccess(_, sent) {
      const typed = Object.fromEntries(fields.filter(({ kind }) => kind.startsWith('secret')).map(({ name }) => [name, '']));
      // A secret is gone from the page as soon as it is stored.
      draft.settle(sent, { ...sent, ...typed });
      notify(t.channels.saved);
      again();
    },
  });
  const input = (field: Field) => {
    const value = draft.value[field.name] ?? '';
    const common = { label: field.label, disabled: !isAdmin, error: problemOf(saving.error, field.name) };
    const set = (next: string) => draft.set({ [field.name]: next });
    switch (field.kind) {
      case 'choice':
        return <NativeSelect {...common} value={value} onChange={(event) => set(event.currentTarget.value)} data={field.options} />;
      case 'secret':
        return <PasswordInput {...common} description={configured ? t.channels.secretKept : t.channels.secretEmpty} autoComplete="new-password" value={value} onChange={(event) => set(event.currentTarget.value)} visibilityToggleButtonProps={{ 'aria-label': t.signIn.reveal }} />;
      case 'secret-text':
        return <Textarea {...common} description={configured ? t.channels.secretKept : t.channels.secretEmpty} autosize minRows={2} maxRows={8} spellCheck={false} value={value} onChange={(event) => set(event.currentTarget.value)} />;
      default:
        return <TextInput {...common} inputMode={field.kind === 'number' ? 'numeric' : undefined} value={value} onChange={(event) => set(event.currentTarget.value)} />;
    }
  };
  const clear = (field: Field) => read(api.PUT('/channels', { body: { [field.name]: null } }));
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
      <Failure error={saving.error} />
      {isAdmin && (
        <Group>
          <Button onClick={() => saving.mutate(draft.value)} loading={saving.isPending} disabled={!draft.isDirty}>
            {t.save}
          </Button>
          {configured &&
            secrets.map((field) => (
              <Ask key={field.name} label={t.channels.clearSecret(field.label)} title={t.channels.clearSecret(field.label)} act={() => clear(field)} onDone={again}>
                {t.channels.clearText}
              </Ask>
            ))}
        </Group>
      )}
    </Stack>
  );
}
