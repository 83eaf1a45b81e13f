import { Button, Stack, TextInput, Textarea } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { notify } from '../../app/notice';
import type { Channel } from '../../app/values';
import { namesOf } from '../../app/field-labels';
import { Failure } from '../../components/failure';
import { t } from '../../text';

const FIELD_NAMES = namesOf({ context: t.templates.context, tone: t.templates.tone });

/** Generates a draft with the operator's language model. If none is configured, the API returns an error. */
export function AiDraft({
  channel,
  onWritten,
}: {
  channel: Channel;
  onWritten: (title: string, body: string) => void;
}) {
  const [context, setContext] = useState('');
  const [tone, setTone] = useState('');
  const writing = useMutation({
    mutationFn: () => read(api.POST('/ai/generate', { body: { channel, context, ...(tone ? { tone } : {}) } })),
    onSuccess({ title, body }) {
      onWritten(title, body);
      notify(t.templates.written);
    },
  });
  return (
    <details>
      <summary>{t.templates.draft}</summary>
      <Stack mt="xs">
        <Textarea
          label={t.templates.context}
          autosize
          minRows={2}
          value={context}
          onChange={(event) => setContext(event.currentTarget.value)}
          error={problemOf(writing.error, 'context')}
        />
        <TextInput
          label={t.templates.tone}
          description={t.templates.toneHint}
          value={tone}
          onChange={(event) => setTone(event.currentTarget.value)}
          error={problemOf(writing.error, 'tone')}
        />
        <Failure error={writing.error} nameField={FIELD_NAMES} />
        <Button variant="default" onClick={() => writing.mutate()} loading={writing.isPending}>
          {t.templates.write}
        </Button>
      </Stack>
    </details>
  );
}
