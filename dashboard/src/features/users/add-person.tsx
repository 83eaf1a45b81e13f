import { Button, type ButtonProps, Group, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { apiOf, isFound, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { APPLIED } from '../../app/applied';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { isReadable } from '../../app/typed-json';
import { useDraft } from '../../components/draft';
import { EditorModal, Unsaved } from '../../components/editor-modal';
import { Failure } from '../../components/failure';
import { useIsHere } from '../../components/is-here';
import { JsonInput } from '../../components/json';
import { t } from '../../text';
import { type NewPerson, identityInput } from './profile';

interface Props {
  variant?: ButtonProps['variant'];
  size?: ButtonProps['size'];
  /** Of whoever is still there to hear it; `isThere` is false where it was taken in, and takes a moment yet. */
  onAdded: (userId: string, isThere: boolean) => void;
}

/** Makes a person known by hand, as a sign-up would. */
export function AddPerson({ variant = 'default', size = 'sm', onAdded }: Props) {
  const [open, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <>
      <Button variant={variant} size={size} onClick={() => setOpen(true)}>
        {t.addPerson.open}
      </Button>
      <EditorModal opened={open} onClose={close} title={t.addPerson.open}>
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

const EMPTY: NewPerson = { userId: '', email: '', name: '', properties: {} };

function Form({ onAdded }: Pick<Props, 'onAdded'>) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const isHere = useIsHere();
  const draft = useDraft(EMPTY);
  const { value, set } = draft;
  const adding = useMutation({
    async mutationFn(person: NewPerson) {
      if (await isKnown(projectId, person.userId)) return { isTaken: true, isThere: true };
      await read(
        apiOf(projectId).POST('/users/identify', { params: { header: APPLIED }, body: identityInput(person) }),
      );
      // Taken in it is, whatever comes of this look: the wait may have run out before it took effect.
      return { isTaken: false, isThere: await isKnown(projectId, person.userId).catch(() => false) };
    },
    onSuccess({ isTaken, isThere }, person) {
      if (isTaken) return;
      draft.settle(person, person);
      notify(isThere ? t.addPerson.added(person.userId) : t.addPerson.accepted(person.userId));
      void client.invalidateQueries({ queryKey: [projectId] });
      if (isHere()) onAdded(person.userId, isThere);
    },
  });
  const { error } = adding;
  const taken = adding.data?.isTaken && adding.variables.userId === value.userId ? t.addPerson.taken : undefined;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    adding.mutate(value);
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <Unsaved when={draft.isDirty && !(adding.isSuccess && !adding.data.isTaken)} />
        <Text size="sm" c="dimmed">
          {t.addPerson.text}
        </Text>
        <TextInput
          label={t.addPerson.userId}
          description={t.addPerson.userIdHint}
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
          label={t.addPerson.properties}
          description={t.addPerson.propertiesHint}
          rows={2}
          value={value.properties}
          nothing={{}}
          error={problemOf(error, 'properties')}
          onChange={(properties) => set({ properties })}
        />
        <Failure error={error} />
        <Group justify="flex-end">
          <Button type="submit" loading={adding.isPending} disabled={!isReadable(value)}>
            {t.addPerson.add}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

/** Whether there is somebody: an `identify` would change them, and not say so. */
const isKnown = (projectId: string, id: string) =>
  isFound(apiOf(projectId).GET('/users/{id}', { params: { path: { id } } }));
