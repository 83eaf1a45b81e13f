import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { type QueryKey, useMutation, useQueryClient } from '@tanstack/react-query';
import { type Schemas, api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { notify } from '../../app/notice';
import { isReadable } from '../../app/typed-json';
import { namesOf } from '../../app/field-labels';
import { UnsavedChangesGuard, useDraft } from '../../components/draft';
import { Failure } from '../../components/failure';
import { JsonInput } from '../../components/json';
import { t } from '../../text';
import { type Fields, profileOf } from './profile';
import { INTERNAL } from './user-ref';

const FIELD_NAMES = namesOf({ name: t.users.name, email: t.users.email, properties: t.json.properties });

interface Props {
  user: Schemas['Person'];
  /** Query key under which the screen caches the user. */
  queryKey: QueryKey;
  onDone: () => void;
}

export function EditUser({ user, queryKey, onDone }: Props) {
  const client = useQueryClient();
  const draft = useDraft<Fields>({ name: user.name ?? '', email: user.email ?? '', properties: {} });
  const saving = useMutation({
    mutationFn: () =>
      read(
        api.PUT('/users/{id}', {
          params: { path: { id: user.id }, query: INTERNAL },
          body: profileOf(draft.changes),
        }),
      ),
    onSuccess(stored) {
      client.setQueryData(queryKey, stored);
      notify(t.saved);
      onDone();
    },
  });
  return (
    <Stack>
      <UnsavedChangesGuard when={draft.isDirty && !saving.isSuccess} />
      <TextInput
        label={t.users.name}
        value={draft.value.name}
        onChange={(event) => draft.set({ name: event.currentTarget.value })}
        error={problemOf(saving.error, 'name')}
      />
      <TextInput
        label={t.users.email}
        value={draft.value.email}
        onChange={(event) => draft.set({ email: event.currentTarget.value })}
        error={problemOf(saving.error, 'email')}
      />
      <JsonInput
        label={t.json.properties}
        description={t.user.merge}
        value={draft.value.properties}
        emptyValue={{}}
        onChange={(properties) => draft.set({ properties })}
      />
      <Text size="xs" c="dimmed" component="pre" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }} m={0}>
        {JSON.stringify(user.properties, null, 2)}
      </Text>
      <Failure error={saving.error} nameField={FIELD_NAMES} />
      <Group>
        <Button
          onClick={() => saving.mutate()}
          loading={saving.isPending}
          disabled={!draft.isDirty || !isReadable(draft.value)}
        >
          {t.save}
        </Button>
        <Button variant="default" onClick={onDone}>
          {t.cancel}
        </Button>
      </Group>
    </Stack>
  );
}

EditUser.Open = function Open({ onClick }: { onClick: () => void }) {
  return (
    <Button size="xs" variant="default" onClick={onClick}>
      {t.user.edit}
    </Button>
  );
};
