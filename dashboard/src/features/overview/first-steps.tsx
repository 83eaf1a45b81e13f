import { Button, Group, Stack, Text } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, apiFor, read } from '../../api/client';
import { cacheKey } from '../../app/key-cache';
import { useProject } from '../../app/project';
import { firstEvent } from '../../app/requests';
import { Empty } from '../../components/empty';
import { Failure, Loaded } from '../../components/failure';
import { Snippet } from '../../components/snippet';
import { t } from '../../text';
import { keyOf } from '../access/key';
import { Checklist } from './checklist';
import {
  type Progress,
  SENT_STATUSES,
  STEPS,
  completedSteps,
  selectAutomation,
  triggerEventOf,
  wasSent,
} from './progress';

const POLL_MS = 3_000;
/** Number of newest users from which one is suggested for the test event. */
const CANDIDATE_USERS = 20;

async function loadProgress(projectId: string, signal: AbortSignal): Promise<Progress> {
  const api = apiFor(projectId);
  const [channels, { templates }, { automations }, { users }, { messages }] = await Promise.all([
    read(api.GET('/channels', { signal })),
    read(api.GET('/templates', { signal })),
    read(api.GET('/automations', { signal })),
    read(api.GET('/users', { params: { query: { limit: CANDIDATE_USERS } }, signal })),
    read(api.GET('/messages', { params: { query: { limit: 1 } }, signal })),
  ]);
  const automation = selectAutomation(automations);
  const newest = messages[0] ?? null;
  const [{ events }, sent] = await Promise.all([
    read(api.GET('/events', { params: { query: { event: triggerEventOf(automation), limit: 1 } }, signal })),
    newest === null || wasSent(newest) ? newest : findSentMessage(projectId, signal),
  ]);
  return {
    channels,
    templates: templates.length,
    automation,
    users,
    events: events.length,
    message: sent ?? newest,
  };
}

/** Finds a sent message of any age: the newest message of an older project may have failed. */
async function findSentMessage(projectId: string, signal: AbortSignal) {
  const lists = await Promise.all(
    SENT_STATUSES.map((status) =>
      read(apiFor(projectId).GET('/messages', { params: { query: { status, limit: 1 } }, signal })),
    ),
  );
  return lists.flatMap(({ messages }) => messages)[0] ?? null;
}

/** A project that has sent a message needs no more guidance, even if it skipped steps. */
const isComplete = (progress: Progress) => completedSteps(progress).message;

interface Props {
  /** Whether the project has no events and no active users in the displayed range. */
  isEmpty: boolean;
  /** Whether messages were sent in the displayed range. */
  hasSent: boolean;
}

/**
 * Checklist that leads to the first message. Once shown, it stays until the user leaves the screen, even after the last step is
 * done, because it may contain a new key that is shown only once.
 */
export function FirstSteps({ isEmpty, hasSent }: Props) {
  const { projectId, isAdmin } = useProject();
  const [started, setStarted] = useState(false);
  const progress = useQuery({
    queryKey: [projectId, 'first-steps'],
    queryFn: ({ signal }) => loadProgress(projectId, signal),
    enabled: isEmpty || !hasSent || started,
    refetchInterval: (query) => (query.state.data && isComplete(query.state.data) ? false : POLL_MS),
  });
  const creating = useMutation({
    mutationFn: async () =>
      keyOf(await read(api.POST('/api-keys', { body: { name: t.overview.keyName, type: 'public' } }))),
    onSuccess: (key) => cacheKey(projectId, key),
  });
  const complete = progress.data !== undefined && isComplete(progress.data);
  if (!started && progress.data && !complete) setStarted(true);
  if (!started && creating.isIdle && (!isEmpty || complete || progress.isPending)) return null;
  return (
    <Empty title={complete ? t.overview.doneTitle : isEmpty ? t.overview.emptyTitle : t.overview.startedTitle}>
      <Stack gap="md" w="100%">
        <Text>{complete ? t.overview.doneText : t.overview.emptyText}</Text>
        <Loaded query={progress} rows={STEPS.length}>
          {(current) => <Checklist progress={current} />}
        </Loaded>
        <ApiExample
          publicKey={creating.data}
          isCreating={creating.isPending}
          error={creating.error}
          onCreate={isAdmin ? () => creating.mutate() : undefined}
        />
      </Stack>
    </Empty>
  );
}

interface ApiExampleProps {
  publicKey: string | undefined;
  isCreating: boolean;
  error: unknown;
  /** Undefined for members, who cannot create keys. */
  onCreate?: () => void;
}

/** Explains the same steps through the API, with a sample request. */
function ApiExample({ publicKey, isCreating, error, onCreate }: ApiExampleProps) {
  return (
    <Stack gap="xs" align="flex-start">
      <Text size="sm">
        {publicKey ? t.overview.keyText : onCreate ? t.overview.byRequest : t.overview.byRequestMember}
      </Text>
      {onCreate && !publicKey && (
        <Group>
          <Button variant="default" size="xs" loading={isCreating} onClick={onCreate}>
            {t.overview.createKey}
          </Button>
        </Group>
      )}
      <Failure error={error} />
      {publicKey && <Snippet label={t.overview.snippet} code={firstEvent(location.origin, publicKey)} />}
    </Stack>
  );
}
