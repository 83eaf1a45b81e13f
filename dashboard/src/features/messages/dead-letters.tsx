import { Button, Group, Stack, Text } from '@mantine/core';
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { type Schemas, api, read } from '../../api/client';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { messageReason } from '../../app/reasons';
import { CHANNELS, DEAD_LETTER_KINDS } from '../../app/values';
import { ConfirmButton } from '../../components/confirm-button';
import { Empty } from '../../components/empty';
import { Failure, Loaded } from '../../components/failure';
import { Choice, SearchField } from '../../components/filters';
import { Listing } from '../../components/listing';
import { ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { Page } from '../../components/page';
import { Pager } from '../../components/pager';
import { Reason } from '../../components/reason';
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
  const onReplayed = ({ replayed, more }: { replayed: number; more: boolean }) => {
    notify(t.deadLetters.retried(replayed, more));
    return client.invalidateQueries({ queryKey: [projectId, 'dead-letters'] });
  };
  const replaying = useMutation({
    mutationFn: (id: string) => read(api.POST('/dead-letters/replay', { body: { ids: [id] } })),
    onSuccess: onReplayed,
  });
  const replayAll = async () =>
    onReplayed(
      await read(api.POST('/dead-letters/replay', { body: filtered ? { kind, channel, reason } : { all: true } })),
    );
  return (
    <Page title={t.deadLetters.title}>
      <Text>{t.deadLetters.text}</Text>
      <Group align="flex-end">
        <Choice
          label={t.deadLetters.kind}
          value={kind}
          options={DEAD_LETTER_KINDS}
          name={(each) => t.deadLetters.kinds[each] ?? each}
          onChange={(value) => filter({ kind: value })}
        />
        <Choice
          label={t.messages.channel}
          value={channel}
          options={CHANNELS}
          name={t.channelName}
          onChange={(value) => filter({ channel: value })}
        />
        <SearchField label={t.deadLetters.code} value={reason} onChange={(value) => filter({ reason: value })} />
      </Group>
      <Failure error={replaying.error} />
      <Loaded query={letters}>
        {(found) => (
          <Stack>
            {found.deadLetters.length > 0 && (
              <Group>
                <ConfirmButton
                  label={t.deadLetters.retryAll(t.number(found.total))}
                  title={t.deadLetters.retryTitle}
                  action={replayAll}
                >
                  {t.deadLetters.retryText}
                </ConfirmButton>
              </Group>
            )}
            <DeadLetterList
              letters={found.deadLetters}
              onReplay={(id) => replaying.mutate(id)}
              busy={replaying.isPending}
              empty={filtered ? t.deadLetters.emptyFiltered : t.deadLetters.emptyText}
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

function DeadLetterList({ letters, busy, empty, onReplay }: Props) {
  const { projectId } = useProject();
  return (
    <Listing
      label={t.deadLetters.title}
      rows={letters}
      id={(letter) => letter.id}
      empty={<Empty title={t.deadLetters.emptyTitle}>{empty}</Empty>}
      columns={[
        { title: t.deadLetters.failed, cell: (letter) => <Moment at={letter.failedAt} /> },
        {
          title: t.deadLetters.item,
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
          title: t.deadLetters.reason,
          cell: (letter) => (
            <Reason reason={letter.reason} words={(reason) => messageReason(reason, 'failed')} withCode maw={360} />
          ),
        },
        { title: t.messages.user, cell: (letter) => letter.userId ?? letter.anonymousId ?? '–' },
        { title: t.messages.attempts, cell: (letter) => letter.attempts, end: true },
        {
          title: t.deadLetters.retry,
          cell: (letter) => (
            <Button size="compact-xs" variant="default" loading={busy} onClick={() => onReplay(letter.id)}>
              {t.deadLetters.retry}
            </Button>
          ),
        },
      ]}
    />
  );
}
