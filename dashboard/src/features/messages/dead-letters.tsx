import { Button, Group, Stack, Text } from '@mantine/core';
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { type Schemas, api, read } from '../../api/client';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { CHANNELS, DEAD_KINDS } from '../../app/values';
import { Ask } from '../../components/ask';
import { Empty } from '../../components/empty';
import { Failure, Loaded } from '../../components/failure';
import { Choice, SearchField } from '../../components/filters';
import { Listing } from '../../components/listing';
import { ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { Page } from '../../components/page';
import { Pager } from '../../components/pager';
import { t } from '../../text';

const route = getRouteApi('/p/$projectId/dead-letters');
const LIMIT = 50;

export function DeadLetters() {
  const { projectId } = useProject();
  const filters = route.useSearch();
  const navigate = route.useNavigate();
  const client = useQueryClient();
  const { page = 1, kind, channel, reason } = filters;
  const letters = useQuery({
    queryKey: [projectId, 'dead-letters', filters],
    queryFn: ({ signal }) =>
      read(api.GET('/dead-letters', { params: { query: { kind, channel, reason, page, limit: LIMIT } }, signal })),
    placeholderData: keepPreviousData,
  });
  const filter = (change: Partial<typeof filters>) =>
    void navigate({ search: { ...filters, page: undefined, ...change }, replace: true });
  const filtered = Boolean(kind ?? channel ?? reason);
  const told = ({ replayed, more }: { replayed: number; more: boolean }) => {
    notify(t.dead.replayed(replayed, more));
    return client.invalidateQueries({ queryKey: [projectId, 'dead-letters'] });
  };
  const replaying = useMutation({
    mutationFn: (id: string) => read(api.POST('/dead-letters/replay', { body: { ids: [id] } })),
    onSuccess: told,
  });
  const replayAll = async () =>
    told(await read(api.POST('/dead-letters/replay', { body: filtered ? { kind, channel, reason } : { all: true } })));
  return (
    <Page title={t.dead.title}>
      <Text>{t.dead.text}</Text>
      <Group align="flex-end">
        <Choice
          label={t.dead.kind}
          value={kind}
          options={DEAD_KINDS}
          name={(each) => t.dead.kinds[each] ?? each}
          onChange={(value) => filter({ kind: value })}
        />
        <Choice
          label={t.messages.channel}
          value={channel}
          options={CHANNELS}
          name={t.channelName}
          onChange={(value) => filter({ channel: value })}
        />
        <SearchField label={t.dead.code} value={reason} onChange={(value) => filter({ reason: value })} />
      </Group>
      <Failure error={replaying.error} />
      <Loaded query={letters}>
        {(found) => (
          <Stack>
            {found.deadLetters.length > 0 && (
              <Group>
                <Ask label={t.dead.all(t.number(found.total))} title={t.dead.replayTitle} act={replayAll}>
                  {t.dead.replayText}
                </Ask>
              </Group>
            )}
            <Letters
              letters={found.deadLetters}
              onReplay={(id) => replaying.mutate(id)}
              busy={replaying.isPending}
              empty={filtered ? t.dead.emptyFiltered : t.dead.emptyText}
            />
            <Pager
              page={page}
              limit={LIMIT}
              total={found.total}
              totalIsCapped={found.totalIsCapped}
              onPage={(next) => filter({ page: next })}
            />
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

interface Props {
  letters: Array<Schemas['DeadLetter']>;
  busy: boolean;
  empty: string;
  onReplay: (id: string) => void;
}

function Letters({ letters, busy, empty, onReplay }: Props) {
  const { projectId } = useProject();
  return (
    <Listing
      label={t.dead.title}
      rows={letters}
      id={(letter) => letter.id}
      empty={<Empty title={t.dead.emptyTitle}>{empty}</Empty>}
      columns={[
        { title: t.dead.failed, cell: (letter) => <Moment at={letter.failedAt} /> },
        {
          title: t.dead.what,
          cell: (letter) =>
            letter.messageId ? (
              <ScreenLink to="/p/$projectId/messages/$messageId" params={{ projectId, messageId: letter.messageId }}>
                {letter.channel ? t.channelName(letter.channel) : t.messages.noSubject}
              </ScreenLink>
            ) : (
              letter.name
            ),
        },
        {
          title: t.dead.reason,
          cell: (letter) => (
            <Text size="sm" maw={360} style={{ overflowWrap: 'anywhere' }}>
              {letter.reason}
            </Text>
          ),
        },
        { title: t.messages.user, cell: (letter) => letter.userId ?? letter.anonymousId ?? '–' },
        { title: t.messages.attempts, cell: (letter) => letter.attempts, end: true },
        {
          title: t.dead.replay,
          cell: (letter) => (
            <Button size="compact-xs" variant="default" loading={busy} onClick={() => onReplay(letter.id)}>
              {t.dead.replay}
            </Button>
          ),
        },
      ]}
    />
  );
}
