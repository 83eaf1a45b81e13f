import { Button, type ButtonProps, Group, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { apiFor, isFound, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { APPLIED } from '../../app/applied';
import { type NameField, namesOf } from '../../app/field-labels';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { isReadable } from '../../app/typed-json';
import { useDraft } from '../../components/draft';
import { EditorModal, Unsaved } from '../../components/editor-modal';
import { Failure } from '../../components/failure';
import { useIsMounted } from '../../components/is-mounted';
import { JsonInput } from '../../components/json';
import { t } from '../../text';
import { type NewUser, identifyInput } from './profile';

interface Props {
  variant?: ButtonProps['variant'];
  size?: ButtonProps['size'];
  /** Called if the form is still mounted. `exists` is false if the user was accepted but not stored yet. */
  onAdded: (userId: string, exists: boolean) => void;
}

/** Button and form that create a user, like a sign-up in an app would. */
export function AddUser({ variant = 'default', size = 'sm', onAdded }: Props) {
  const [open, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <>
      <Button variant={variant} size={size} onClick={() => setOpen(true)}>
        {t.addUser.open}
      </Button>
      <EditorModal opened={open} onClose={close} title={t.addUser.open}>
        <Form
          onAdded={(...added) => {
            close();
            onAdded(...added);
          }}
        />
      </EditorModal>
    </>
  );
}

const OWN_FIELDS: Record<string, string> = { 'properties.email': t.users.email, 'properties.name': t.users.name };
const fieldNames = namesOf({ user_id: t.addUser.userId, properties: t.addUser.properties });
const nameField: NameField = (field) => OWN_FIELDS[field] ?? fieldNames(field);

const EMPTY: NewUser = { userId: '', email: '', name: '', properties: {} };

function Form({ onAdded }: Pick<Props, 'onAdded'>) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const isMounted = useIsMounted();
  const draft = useDraft(EMPTY);
  const { value, set } = draft;
  const adding = useMutation({
    async mutationFn(user: NewUser) {
      if (await userExists(projectId, user.userId)) return { isTaken: true, exists: true };
      await read(apiFor(projectId).POST('/users/identify', { params: { header: APPLIED }, body: identifyInput(user) }));
      // The user is accepted in any case. They may not be stored yet if the wait timed out.
      return { isTaken: false, exists: await userExists(projectId, user.userId).catch(() => false) };
    },
    onSuccess({ isTaken, exists }, user) {
      if (isTaken) return;
      draft.markSaved(user, user);
      notify(exists ? t.addUser.added(user.userId) : t.addUser.accepted(user.userId));
      void client.invalidateQueries({ queryKey: [projectId] });
      if (isMounted()) onAdded(user.userId, exists);
    },
  });
  const { error } = adding;
  const taken = adding.data?.isTaken && adding.variables.userId === value.userId ? t.addUser.taken : undefined;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    adding.mutate(value);
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <Unsaved when={draft.isDirty && !(adding.isSuccess && !adding.data.isTaken)} />
        <Text size="sm" c="dimmed">
          {t.addUser.text}
        </Text>
        <TextInput
          label={t.addUser.userId}
          description={t.addUser.userIdHint}
          required
          autoComplete="off"
          value={value.userId}
          onChange={(event) => set({ userId: event.currentTarget.value })}
          error={taken ?? problemOf(error, 'user_id')}
          data-autofocus
        />
        <TextInput
          type="email"
          label={t.users.email}
          autoComplete="off"
          value={value.email}
          onChange={(event) => set({ email: event.currentTarget.value })}
          error={problemOf(error, 'properties.email')}
        />
        <TextInput
          label={t.users.name}
          autoComplete="off"
          value={value.name}
          onChange={(event) => set({ name: event.currentTarget.value })}
          error={problemOf(error, 'properties.name')}
        />
        <JsonInput
          label={t.addUser.properties}
          description={t.addUser.propertiesHint}
          rows={2}
          value={value.properties}
          emptyValue={{}}
          error={problemOf(error, 'properties')}
          onChange={(properties) => set({ properties })}
        />
        <Failure error={error} nameField={nameField} />
        <Group justify="flex-end">
          <Button type="submit" loading={adding.isPending} disabled={!isReadable(value)}>
            {t.addUser.add}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

/** Whether a user with this ID exists. `identify` would silently update that user. */
const userExists = (projectId: string, id: string) =>
  isFound(apiFor(projectId).GET('/users/{id}', { params: { path: { id } } }));
