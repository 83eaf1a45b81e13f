import { Button, Group, Stack, Text } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, apiOf, read } from '../../api/client';
import { rememberKey } from '../../app/known-keys';
import { useProject } from '../../app/project';
import { firstEvent } from '../../app/requests';
import { Empty } from '../../components/empty';
import { Failure, Loaded } from '../../components/failure';
import { Snippet } from '../../components/snippet';
import { t } from '../../text';
import { keyOf } from '../access/key';
import { type Found, STEPS, WENT, doneOf, hasGone, leading, startOf } from './progress';
import { StepsToTake } from './steps-to-take';

const AGAIN_MS = 3_000;
/** Of the newest people, among whom is one to try it with. */
const FEW = 20;

async function look(projectId: string, signal: AbortSignal): Promise<Found> {
  const api = apiOf(projectId);
  const [channels, { templates }, { automations }, { users }, { messages }] = await Promise.all([
    read(api.GET('/channels', { signal })),
    read(api.GET('/templates', { signal })),
    read(api.GET('/automations', { signal })),
    read(api.GET('/users', { params: { query: { limit: FEW } }, signal })),
    read(api.GET('/messages', { params: { query: { limit: 1 } }, signal })),
  ]);
  const automation = leading(automations);
  const newest = messages[0] ?? null;
  const [{ events }, gone] = await Promise.all([
    read(api.GET('/events', { params: { query: { event: startOf(automation), limit: 1 } }, signal })),
    newest === null || hasGone(newest) ? newest : anyGone(projectId, signal),
  ]);
  return {
    channels,
    templates: templates.length,
    automation,
    people: users,
    events: events.length,
    message: gone ?? newest,
  };
}

/** A message that went out, at whatever time: of a project that has long sent, the newest may have failed. */
async function anyGone(projectId: string, signal: AbortSignal) {
  const lists = await Promise.all(
    WENT.map((status) => read(apiOf(projectId).GET('/messages', { params: { query: { status, limit: 1 } }, signal }))),
  );
  return lists.flatMap(({ messages }) => messages)[0] ?? null;
}

/** Whoever has sent a message needs no more leading, whichever way they went. */
const isThrough = (found: Found) => doneOf(found).message;

interface Props {
  /** Nobody has done anything yet. */
  isEmpty: boolean;
  /** Something was sent in the range that is shown. */
  hasSent: boolean;
}

/**
 * What leads to a first message, step by step, as long as there is none. Once it was seen it stays while its viewer does, with
 * the last step marked; and so does the key that was made here, which is shown this once.
 */
export function FirstSteps({ isEmpty, hasSent }: Props) {
  const { projectId, isAdmin } = useProject();
  const [begun, setBegun] = useState(false);
  const found = useQuery({
    queryKey: [projectId, 'first-steps'],
    queryFn: ({ signal }) => look(projectId, signal),
    enabled: isEmpty || !hasSent || begun,
    refetchInterval: (query) => (query.state.data && isThrough(query.state.data) ? false : AGAIN_MS),
  });
  const making = useMutation({
    mutationFn: async () =>
      keyOf(await read(api.POST('/api-keys', { body: { name: t.overview.keyName, type: 'public' } }))),
    onSuccess: (key) => rememberKey(projectId, key),
  });
  const through = found.data !== undefined && isThrough(found.data);
  if (!begun && found.data && !through) setBegun(true);
  if (!begun && making.isIdle && (!isEmpty || through || found.isPending)) return null;
  return (
    <Empty title={through ? t.overview.doneTitle : isEmpty ? t.overview.emptyTitle : t.overview.begunTitle}>
      <Stack gap="md" w="100%">
        <Text>{through ? t.overview.doneText : t.overview.emptyText}</Text>
        <Loaded query={found} rows={STEPS.length}>
          {(now) => <StepsToTake found={now} />}
        </Loaded>
        <ByRequest
          keyMade={making.data}
          isMaking={making.isPending}
          error={making.error}
          onMake={isAdmin ? () => making.mutate() : undefined}
        />
      </Stack>
    </Empty>
  );
}

interface ByRequestProps {
  keyMade: string | undefined;
  isMaking: boolean;
  error: unknown;
  /** Who may make none is told so. */
  onMake?: () => void;
}

/** The same by the API: what an app does once it is connected. */
function ByRequest({ keyMade, isMaking, error, onMake }: ByRequestProps) {
  return (
    <Stack gap="xs" align="flex-start">
      <Text size="sm">{keyMade ? t.overview.keyText : onMake ? t.overview.byRequest : t.overview.emptyMember}</Text>
      {onMake && !keyMade && (
        <Group>
          <Button variant="default" size="xs" loading={isMaking} onClick={onMake}>
            {t.overview.makeKey}
          </Button>
        </Group>
      )}
      <Failure error={error} />
      {keyMade && <Snippet label={t.overview.snippet} code={firstEvent(location.origin, keyMade)} />}
    </Stack>
  );
}
