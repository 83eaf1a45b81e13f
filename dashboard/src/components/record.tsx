import { Alert, Anchor, Button, Group, Stack, Text } from '@mantine/core';
import { type UseMutationResult, type UseQueryResult, useMutation, useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { Tagged } from '../api/client';
import { ApiFailure } from '../api/failure';
import { t } from '../text';
import { type Draft, useDraft } from './draft';
import { Failure, Loaded } from './failure';
import { useIsHere } from './is-here';
import { Page } from './page';

/** The last part of the address of what is not made yet. */
const NEW = 'new';

interface ScreenProps<R> {
  /** As the address has it. */
  id: string;
  /** Until there is more to show. */
  title: string;
  queryKey: string[];
  read: (signal: AbortSignal) => Promise<Tagged<R>>;
  /** In ms, where what is shown beside the fields changes by itself. */
  refetchInterval?: (record: R) => number | false;
  /** What is opened is none where something new is made; whoever makes it tells its id before the address changes. */
  children: (opened: Tagged<R> | null, now: R | null, onMade: (id: string) => void) => ReactNode;
}

/**
 * The screen on which a record is edited. What is edited stays as it was when it was opened. The editor in which a new
 * one is made goes on with it: what was typed while it was being made is still there.
 */
export function RecordScreen<R>({ id, title, queryKey, read, refetchInterval, children }: ScreenProps<R>) {
  const [editor, setEditor] = useState({ at: id, made: '', round: 0 });
  // Once another is opened, what was made here is read like any.
  if (editor.at !== id)
    setEditor({ at: id, made: id === editor.made ? id : '', round: editor.round + (id === NEW ? 1 : 0) });
  const isNew = id === NEW || id === editor.made;
  const record = useQuery({
    queryKey,
    queryFn: ({ signal }) => read(signal),
    // What was made here is known; only where it changes by itself is it followed.
    enabled: id !== NEW && (id !== editor.made || refetchInterval !== undefined),
    staleTime: Infinity,
    gcTime: 0,
    refetchInterval: (query) => (query.state.data && refetchInterval?.(query.state.data.value)) || false,
  });
  const onMade = (made: string) => setEditor((before) => ({ ...before, made }));
  if (isNew) return <Kept key={`${NEW} ${editor.round}`}>{children(null, record.data?.value ?? null, onMade)}</Kept>;
  if (!record.data) return <Unread title={title} record={record} />;
  return <Kept key={id}>{children(record.data, record.data.value, onMade)}</Kept>;
}

function Kept({ children }: { children: ReactNode }) {
  return children;
}

function Unread<R>({ title, record }: { title: string; record: UseQueryResult<R> }) {
  return (
    <Page title={title}>
      <Loaded query={record}>{() => null}</Loaded>
    </Page>
  );
}

interface OpenedProps<R> {
  queryKey: string[];
  /** None where something new is made. */
  read: ((signal: AbortSignal) => Promise<Tagged<R>>) | null;
  children: (opened: Tagged<R> | null) => ReactNode;
}

/** A record as it is when a form is opened for it over a list, which tells no tags. */
export function OpenedRecord<R>({ queryKey, read, children }: OpenedProps<R>) {
  const record = useQuery({
    queryKey,
    queryFn: ({ signal }) => (read ? read(signal) : Promise.reject(new Error('there is nothing to read'))),
    enabled: read !== null,
    staleTime: Infinity,
    gcTime: 0,
  });
  return read ? <Loaded query={record}>{children}</Loaded> : children(null);
}

interface Editing<R, F> {
  opened: Tagged<R> | null;
  /** The fields of what is new. */
  empty: F;
  fieldsOf: (record: R) => F;
  create?: (fields: F) => Promise<Tagged<R>>;
  /** Where it is still in the state of that tag; over whatever there is without one. */
  change: (record: R, fields: F, base: F, tag: string | null) => Promise<Tagged<R>>;
  newest: (record: R) => Promise<Tagged<R>>;
  /** Whoever has left meanwhile is not `here` any more, and stays where they are. */
  onSaved: (saved: Tagged<R>, as: { isNew: boolean; isHere: boolean }) => unknown;
  onRefused?: (error: Error) => void;
}

export interface Edited<R, F> {
  /** As it was read or saved last; none before it is made. */
  stored: R | null;
  tag: string | null;
  draft: Draft<F>;
  saving: UseMutationResult<Tagged<R>, Error, { fields: F; tag: string | null }>;
  loading: UseMutationResult<Tagged<R>, Error, void>;
  save: () => void;
  /** Also over what somebody else has saved meanwhile. */
  saveOver: () => void;
  /** It was changed by something else than the fields. */
  keep: (stored: Tagged<R>) => void;
}

/** A record that somebody edits. Nothing that another has changed meanwhile is overwritten unasked. */
export function useEdited<R, F extends object>({
  opened,
  empty,
  fieldsOf,
  create,
  change,
  newest,
  onSaved,
  onRefused,
}: Editing<R, F>): Edited<R, F> {
  const [stored, setStored] = useState(opened);
  const draft = useDraft(opened ? fieldsOf(opened.value) : empty);
  const isHere = useIsHere();
  const saving = useMutation({
    mutationFn({ fields, tag }: { fields: F; tag: string | null }) {
      if (stored) return change(stored.value, fields, draft.base, tag);
      return create ? create(fields) : Promise.reject(new Error('there is nothing to change'));
    },
    async onSuccess(saved, { fields }) {
      draft.settle(fields, fieldsOf(saved.value));
      setStored(saved);
      await onSaved(saved, { isNew: stored === null, isHere: isHere() });
    },
    onError: onRefused,
  });
  const loading = useMutation({
    mutationFn: () => (stored ? newest(stored.value) : Promise.reject(new Error('there is nothing to load'))),
    onSuccess(theirs) {
      draft.restart(fieldsOf(theirs.value));
      setStored(theirs);
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
    saveOver: () => saving.mutate({ fields: draft.value, tag: null }),
    keep: setStored,
  };
}

/** Why nothing was saved. Where somebody else has saved meanwhile, whoever edits says what is to become of it. */
export function NotSaved<R, F>({
  edited: { saving, loading, saveOver },
  hide,
}: {
  edited: Edited<R, F>;
  hide?: (field: string) => boolean;
}) {
  const { error } = saving;
  if (!(error instanceof ApiFailure) || error.status !== 412) return <Failure error={error} hide={hide} />;
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
            {t.conflict.see}
          </Anchor>
          <Button
            size="xs"
            variant="default"
            loading={loading.isPending}
            disabled={saving.isPending}
            onClick={() => loading.mutate()}
          >
            {t.conflict.load}
          </Button>
          <Button
            size="xs"
            variant="default"
            loading={saving.isPending}
            disabled={loading.isPending}
            onClick={saveOver}
          >
            {t.conflict.over}
          </Button>
        </Group>
      </Stack>
    </Alert>
  );
}
