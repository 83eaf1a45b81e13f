import { Button, type ButtonProps, Group, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useId, useState } from 'react';
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

/** How many people are offered. */
const OFFERED = 20;

/** Somebody who is known: by their own id, or else by an anonymous one. */
export type Known = { userId: string } | { anonymousId: string };

interface Props {
  /** What the form begins with. */
  event?: string;
  user?: string;
  /** Whose event it is, where that is not asked for. */
  of?: Known;
  variant?: ButtonProps['variant'];
  size?: ButtonProps['size'];
  /** Of whoever is still there to hear it. */
  onSent?: (event: string, user: string) => void;
}

/** Records an event by hand, as an app would. */
export function SendEvent({ event = '', user = '', of, variant = 'default', size = 'sm', onSent }: Props) {
  const [open, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <>
      <Button variant={variant} size={size} onClick={() => setOpen(true)}>
        {t.sendEvent.open}
      </Button>
      <EditorModal opened={open} onClose={close} title={t.sendEvent.open}>
        <Form
          begun={{ event, user, properties: {} }}
          of={of}
          onSent={(...sent) => {
            close();
            onSent?.(...sent);
          }}
        />
      </EditorModal>
    </>
  );
}

interface Fields {
  event: string;
  user: string;
  properties: unknown;
}

function Form({ begun, of, onSent }: { begun: Fields; of?: Known; onSent: (event: string, user: string) => void }) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const isHere = useIsHere();
  const draft = useDraft(begun);
  const { value, set } = draft;
  const sending = useMutation({
    async mutationFn({ event, user, properties }: Fields) {
      const { id } = await read(
        apiOf(projectId).POST('/events', {
          params: { header: APPLIED },
          body: { event, ...(of ?? { userId: user }), properties: properties as Record<string, unknown> },
        }),
      );
      // Taken in it is, whatever comes of this look: the wait may have run out before it took effect.
      return {
        isRecorded: await isFound(apiOf(projectId).GET('/events/{id}', { params: { path: { id } } })).catch(
          () => false,
        ),
      };
    },
    onSuccess({ isRecorded }, sent) {
      draft.settle(sent, sent);
      notify(isRecorded ? t.sendEvent.sent(sent.event) : t.sendEvent.accepted(sent.event));
      void client.invalidateQueries({ queryKey: [projectId] });
      if (isHere()) onSent(sent.event, sent.user);
    },
  });
  const { error } = sending;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    sending.mutate(value);
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <Unsaved when={draft.isDirty && !sending.isSuccess} />
        <Text size="sm" c="dimmed">
          {t.sendEvent.text}
        </Text>
        <TextInput
          label={t.sendEvent.event}
          description={t.sendEvent.eventHint}
          required
          value={value.event}
          onChange={(event) => set({ event: event.currentTarget.value })}
          error={problemOf(error, 'event')}
          data-autofocus={begun.event === '' || undefined}
        />
        {!of && (
          <PersonField
            value={value.user}
            onChange={(user) => set({ user })}
            error={problemOf(error, 'user_id')}
            isFirst={begun.event !== ''}
          />
        )}
        <JsonInput
          label={t.json.properties}
          description={t.sendEvent.propertiesHint}
          rows={2}
          value={value.properties}
          nothing={{}}
          error={problemOf(error, 'properties')}
          onChange={(properties) => set({ properties })}
        />
        <Failure error={error} />
        <Group justify="flex-end">
          <Button type="submit" loading={sending.isPending} disabled={!isReadable(value)}>
            {t.sendEvent.send}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

/** An id, of which those of the newest people are offered. */
function PersonField({
  value,
  onChange,
  error,
  isFirst,
}: {
  value: string;
  onChange: (user: string) => void;
  error?: string;
  isFirst: boolean;
}) {
  const { projectId } = useProject();
  const list = useId();
  const people = useQuery({
    queryKey: [projectId, 'users', 'offered'],
    queryFn: ({ signal }) => read(apiOf(projectId).GET('/users', { params: { query: { limit: OFFERED } }, signal })),
  });
  return (
    <>
      <TextInput
        label={t.sendEvent.user}
        description={t.sendEvent.userHint}
        required
        list={list}
        autoComplete="off"
        value={value}
        onChange={(event) => onChange(event.currentTarget.value)}
        error={error}
        data-autofocus={isFirst || undefined}
      />
      <datalist id={list}>
        {people.data?.users.map(
          ({ id, externalId, name, email }) =>
            externalId && (
              <option key={id} value={externalId} label={[name, email].filter(Boolean).join(', ') || undefined} />
            ),
        )}
      </datalist>
    </>
  );
}
