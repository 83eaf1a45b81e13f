import { Button, NativeSelect, NumberInput, Stack, TextInput, Textarea } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { problemOf, problemsWithin } from '../../api/failure';
import { namesOf } from '../../app/field-labels';
import { Failure } from '../../components/failure';
import { t } from '../../text';
import { type KeyDraft, type KeyFields, fieldsOf } from './restrictions';

const FIELD_NAMES = namesOf({
  name: t.keys.name,
  type: t.keys.type,
  allowedOrigins: t.keys.origins,
  rateLimit: t.keys.limit,
});

interface Props {
  /** Initial values. */
  draft: KeyDraft;
  /** Whether the key already exists; its type cannot be changed. */
  exists?: boolean;
  label: string;
  save: (fields: KeyFields, type: KeyDraft['type']) => Promise<void>;
}

/** Form for a new or an existing API key. */
export function KeyForm({ draft, exists, label, save }: Props) {
  const [{ name, type, origins, limit }, setValue] = useState(draft);
  const set = (change: Partial<KeyDraft>) => setValue((before) => ({ ...before, ...change }));
  const saving = useMutation({ mutationFn: () => save(fieldsOf({ name, type, origins, limit }), type) });
  const { error } = saving;
  return (
    <Stack>
      <TextInput
        label={t.keys.name}
        description={t.keys.nameHint}
        required
        value={name}
        onChange={(event) => set({ name: event.currentTarget.value })}
        error={problemOf(error, 'name')}
        data-autofocus
      />
      {!exists && (
        <NativeSelect
          label={t.keys.type}
          value={type}
          onChange={(event) => set({ type: event.currentTarget.value === 'secret' ? 'secret' : 'public' })}
          data={[
            { value: 'public', label: t.keys.types.public },
            { value: 'secret', label: t.keys.types.secret },
          ]}
        />
      )}
      {type === 'public' && (
        <>
          <Textarea
            label={t.keys.origins}
            description={t.keys.originsHint}
            autosize
            minRows={2}
            maxRows={8}
            spellCheck={false}
            value={origins}
            onChange={(event) => set({ origins: event.currentTarget.value })}
            error={problemsWithin(error, 'allowedOrigins')[0]?.message}
          />
          <NumberInput
            label={t.keys.limit}
            description={t.keys.limitHint}
            value={limit}
            onChange={(next) => set({ limit: String(next) })}
            error={problemOf(error, 'rateLimit')}
          />
        </>
      )}
      <Failure error={error} nameField={FIELD_NAMES} />
      <Button loading={saving.isPending} onClick={() => saving.mutate()}>
        {label}
      </Button>
    </Stack>
  );
}
