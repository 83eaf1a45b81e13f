import { Button, type ButtonProps, Group, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useId, useState } from 'react';
import { apiFor, isFound, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { APPLIED } from '../../app/applied';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { isReadable } from '../../app/typed-json';
import { namesOf } from '../../app/field-labels';
import { useDraft } from '../../components/draft';
import { EditorModal, Unsaved } from '../../components/editor-modal';
import { Failure } from '../../components/failure';
import { useIsMounted } from '../../components/is-mounted';
import { JsonInput } from '../../components/json';
import { t } from '../../text';

const FIELD_NAMES = namesOf({ event: t.sendEvent.event, user_id: t.sendEvent.user, properties: t.json.properties });

/** Number of suggested users. */
const SUGGESTIONS = 20;

/** ID of an existing user: the external ID, or the anonymous ID if there is none. */
export type UserIdentity = { userId: string } | { anonymousId: string };

interface Props {
  /** Initial values of the form. */
  event?: string;
  user?: string;
  /** The user of the event; without it, the form has a field for the user. */
  of?: UserIdentity;
  variant?: ButtonProps['variant'];
  size?: ButtonProps['size'];
  /** Called if the form is still mounted. */
  onSent?: (event: string, user: string) => void;
}

/** Button and form that send an event, like an app would. */
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
          initial={{ event, user, properties: {} }}
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

interface FormProps {
  initial: Fields;
  of?: UserIdentity;
  onSent: (event: string, user: string) => void;
}

function Form({ initial, of, onSent }: FormProps) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const isMounted = useIsMounted();
  const draft = useDraft(initial);
  const { value, set } = draft;
  const sending = useMutation({
    async mutationFn({ event, user, properties }: Fields) {
      const { id } = await read(
        apiFor(projectId).POST('/events', {
          params: { header: APPLIED },
          body: { event, ...(of ?? { userId: user }), properties: properties as Record<string, unknown> },
        }),
      );
      // The event is accepted in any case. It may not be recorded yet if the wait timed out.
      return {
        isRecorded: await isFound(apiFor(projectId).GET('/events/{id}', { params: { path: { id } } })).catch(
          () => false,
        ),
      };
    },
    onSuccess({ isRecorded }, sent) {
      draft.markSaved(sent, sent);
      notify(isRecorded ? t.sendEvent.sent(sent.event) : t.sendEvent.accepted(sent.event));
      void client.invalidateQueries({ queryKey: [projectId] });
      if (isMounted()) onSent(sent.event, sent.user);
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
          data-autofocus={initial.event === '' || undefined}
        />
        {!of && (
          <UserField
            value={value.user}
            onChange={(user) => set({ user })}
            error={problemOf(error, 'user_id')}
            isFirst={initial.event !== ''}
          />
        )}
        <JsonInput
          label={t.json.properties}
          description={t.sendEvent.propertiesHint}
          rows={2}
          value={value.properties}
          emptyValue={{}}
          error={problemOf(error, 'properties')}
          onChange={(properties) => set({ properties })}
        />
        <Failure error={error} nameField={FIELD_NAMES} />
        <Group justify="flex-end">
          <Button type="submit" loading={sending.isPending} disabled={!isReadable(value)}>
            {t.sendEvent.send}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

/** User ID field that suggests the newest users. */
function UserField({
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
  const suggestions = useQuery({
    queryKey: [projectId, 'users', 'suggested'],
    queryFn: ({ signal }) =>
      read(apiFor(projectId).GET('/users', { params: { query: { limit: SUGGESTIONS } }, signal })),
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
        {suggestions.data?.users.map(
          ({ id, externalId, name, email }) =>
            externalId && (
              <option key={id} value={externalId} label={[name, email].filter(Boolean).join(', ') || undefined} />
            ),
        )}
      </datalist>
    </>
  );
}
