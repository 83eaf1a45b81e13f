import { Alert, Anchor, Button, Group, Stack, Text } from '@mantine/core';
import { type UseMutationResult, type UseQueryResult, useMutation, useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { Tagged } from '../api/client';
import { ApiFailure } from '../api/failure';
import type { NameField } from '../app/field-labels';
import { t } from '../text';
import { type Draft, useDraft } from './draft';
import { Failure, Loaded } from './failure';
import { useIsMounted } from './is-mounted';
import { Page } from './page';

/** Stands for the ID in the URL of a record that is not created yet. */
const NEW = 'new';

interface ScreenProps<R> {
  /** ID from the URL, or `new`. */
  id: string;
  /** Page title while the record loads. */
  title: string;
  queryKey: string[];
  read: (signal: AbortSignal) => Promise<Tagged<R>>;
  /** Poll interval in milliseconds, for records that change in the background. */
  refetchInterval?: (record: R) => number | false;
  /** `opened` is null for a new record. Call `onCreated` with the new ID before the URL changes. */
  children: (opened: Tagged<R> | null, now: R | null, onCreated: (id: string) => void) => ReactNode;
}

/**
 * Screen that edits a record. The edited record stays as it was when it was opened. After a new record is created, the same
 * editor continues with it, so edits made while saving are kept.
 */
export function RecordScreen<R>({ id, title, queryKey, read, refetchInterval, children }: ScreenProps<R>) {
  const [editor, setEditor] = useState({ id, created: '', round: 0 });
  // Once another record is opened, the one created here is loaded like any other.
  if (editor.id !== id)
    setEditor({ id, created: id === editor.created ? id : '', round: editor.round + (id === NEW ? 1 : 0) });
  const isNew = id === NEW || id === editor.created;
  const record = useQuery({
    queryKey,
    queryFn: ({ signal }) => read(signal),
    // A record created here is already loaded; it is fetched only if it has to be polled.
    enabled: id !== NEW && (id !== editor.created || refetchInterval !== undefined),
    staleTime: Infinity,
    gcTime: 0,
    refetchInterval: (query) => (query.state.data && refetchInterval?.(query.state.data.value)) || false,
  });
  const onCreated = (created: string) => setEditor((before) => ({ ...before, created }));
  if (isNew)
    return <Keyed key={`${NEW} ${editor.round}`}>{children(null, record.data?.value ?? null, onCreated)}</Keyed>;
  if (!record.data) return <LoadingRecord title={title} record={record} />;
  return <Keyed key={id}>{children(record.data, record.data.value, onCreated)}</Keyed>;
}

function Keyed({ children }: { children: ReactNode }) {
  return children;
}

function LoadingRecord<R>({ title, record }: { title: string; record: UseQueryResult<R> }) {
  return (
    <Page title={title}>
      <Loaded query={record}>{() => null}</Loaded>
    </Page>
  );
}

interface OpenedProps<R> {
  queryKey: string[];
  /** Null for a new record. */
  read: ((signal: AbortSignal) => Promise<Tagged<R>>) | null;
  children: (opened: Tagged<R> | null) => ReactNode;
}

/** Loads a record with its entity tag when a form is opened over a list, because lists have no tags. */
export function OpenedRecord<R>({ queryKey, read, children }: OpenedProps<R>) {
  const record = useQuery({
    queryKey,
    queryFn: ({ signal }) => (read ? read(signal) : Promise.reject(new Error('no record to load'))),
    enabled: read !== null,
    staleTime: Infinity,
    gcTime: 0,
  });
  return read ? <Loaded query={record}>{children}</Loaded> : children(null);
}

interface Editing<R, F> {
  opened: Tagged<R> | null;
  /** Fields of a new record. */
  empty: F;
  fieldsOf: (record: R) => F;
  create?: (fields: F) => Promise<Tagged<R>>;
  /** Saves if the record still has this tag; with a null tag, overwrites any version. */
  change: (record: R, fields: F, base: F, tag: string | null) => Promise<Tagged<R>>;
  reload: (record: R) => Promise<Tagged<R>>;
  /** If the screen has been left in the meantime, `isMounted` is false; do not navigate then. */
  onSaved: (saved: Tagged<R>, as: { isNew: boolean; isMounted: boolean }) => unknown;
  onError?: (error: Error) => void;
}

export interface Edited<R, F> {
  /** The record as last loaded or saved; null before it is created. */
  stored: R | null;
  tag: string | null;
  draft: Draft<F>;
  saving: UseMutationResult<Tagged<R>, Error, { fields: F; tag: string | null }>;
  loading: UseMutationResult<Tagged<R>, Error, void>;
  save: () => void;
  /** Saves even if someone else has changed the record in the meantime. */
  overwrite: () => void;
  /** Replaces the stored record after a change outside the form. */
  setStored: (stored: Tagged<R>) => void;
}

/** Edits a record with optimistic locking: changes by others are never overwritten without confirmation. */
export function useEdited<R, F extends object>({
  opened,
  empty,
  fieldsOf,
  create,
  change,
  reload,
  onSaved,
  onError,
}: Editing<R, F>): Edited<R, F> {
  const [stored, setStored] = useState(opened);
  const draft = useDraft(opened ? fieldsOf(opened.value) : empty);
  const isMounted = useIsMounted();
  const saving = useMutation({
    mutationFn({ fields, tag }: { fields: F; tag: string | null }) {
      if (stored) return change(stored.value, fields, draft.base, tag);
      return create ? create(fields) : Promise.reject(new Error('no record to change'));
    },
    async onSuccess(saved, { fields }) {
      draft.markSaved(fields, fieldsOf(saved.value));
      setStored(saved);
      await onSaved(saved, { isNew: stored === null, isMounted: isMounted() });
    },
    onError,
  });
  const loading = useMutation({
    mutationFn: () => (stored ? reload(stored.value) : Promise.reject(new Error('no record to load'))),
    onSuccess(current) {
      draft.restart(fieldsOf(current.value));
      setStored(current);
      saving.reset();
    },
  });
  const tag = stored?.tag ?? null;
  return {
    stored: stored?.value ?? null,
    tag,
    draft,
    saving,
    loading,
    save: () => saving.mutate({ fields: draft.value, tag }),
    overwrite: () => saving.mutate({ fields: draft.value, tag: null }),
    setStored,
  };
}

/** Shows why a record was not saved. On a conflict, it offers to discard the edits or to overwrite the other version. */
export function NotSaved<R, F>({
  edited: { saving, loading, overwrite },
  hide,
  nameField,
}: {
  edited: Edited<R, F>;
  hide?: (field: string) => boolean;
  nameField?: NameField;
}) {
  const { error } = saving;
  if (!(error instanceof ApiFailure) || error.status !== 412)
    return <Failure error={error} hide={hide} nameField={nameField} />;
  return (
    <Alert color="yellow" variant="outline" title={t.conflict.title} role="alert">
      <Stack gap="xs" align="flex-start">
        <Text size="sm">{t.conflict.text}</Text>
        <Text size="sm" c="dimmed">
          {error.message}
        </Text>
        <Failure error={loading.error} />
        <Group gap="xs">
          <Anchor size="sm" href={location.href} target="_blank">
            {t.conflict.view}
          </Anchor>
          <Button
            size="xs"
            variant="default"
            loading={loading.isPending}
            disabled={saving.isPending}
            onClick={() => loading.mutate()}
          >
            {t.conflict.discard}
          </Button>
          <Button
            size="xs"
            variant="default"
            loading={saving.isPending}
            disabled={loading.isPending}
            onClick={overwrite}
          >
            {t.conflict.overwrite}
          </Button>
        </Group>
      </Stack>
    </Alert>
  );
}
