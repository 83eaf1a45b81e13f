import { Button, type ButtonProps, Group, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { apiOf, read } from '../../api/client';
import { ApiFailure, problemOf } from '../../api/failure';
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
  /** Of whoever is still there to hear it. */
  onAdded: (userId: string) => void;
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
          onAdded={(userId) => {
            close();
            onAdded(userId);
          }}
        />
      </EditorModal>
    </>
  );
}

const EMPTY: NewPerson = { userId: '', email: '', name: '', properties: {} };

function Form({ onAdded }: { onAdded: (userId: string) => void }) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const isHere = useIsHere();
  const draft = useDraft(EMPTY);
  const { value, set } = draft;
  const adding = useMutation({
    async mutationFn(person: NewPerson) {
      if (await isKnown(projectId, person.userId)) return { isTaken: true };
      await read(apiOf(projectId).POST('/users/identify', { params: { header: APPLIED }, body: identityInput(person) }));
      return { isTaken: false };
    },
    onSuccess({ isTaken }, person) {
      if (isTaken) return;
      draft.settle(person, person);
      notify(t.addPerson.added(person.userId));
      void client.invalidateQueries({ queryKey: [projectId] });
      if (isHere()) onAdded(person.userId);
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
        <Unsaved when={draft.isDirty && !(adding.isSuccess && !taken)} />
        <Text size="sm" c="dimmed">
          {t.addPerson.text}
        </Text>
        <TextInput label={t.addPerson.userId} description={t.addPerson.userIdHint} required autoComplete="off" value={value.userId} onChange={(event) => set({ userId: event.currentTarget.value })} error={taken ?? problemOf(error, 'user_id')} data-autofocus />
        <TextInput type="email" label={t.users.email} autoComplete="off" value={value.email} onChange={(event) => set({ email: event.currentTarget.value })} error={problemOf(error, 'properties.email')} />
        <TextInput label={t.users.name} autoComplete="off" value={value.name} onChange={(event) => set({ name: event.currentTarget.value })} error={problemOf(error, 'properties.name')} />
        <JsonInput label={t.addPerson.properties} description={t.addPerson.propertiesHint} rows={2} value={value.properties} nothing={{}} error={problemOf(error, 'properties')} onChange={(properties) => set({ properties })} />
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
async function isKnown(projectId: string, id: string): Promise<boolean> {
  try {
    await read(apiOf(projectId).GET('/users/{id}', { params: { path: { id } } }));
    return true;
  } catch (failure) {
    if (failure instanceof ApiFailure && failure.status === 404) return false;
    throw failure;
  }
}
