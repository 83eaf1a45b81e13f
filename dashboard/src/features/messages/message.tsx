import { Alert, Button, Group, Stack, Text, Timeline } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { type Schemas, api, read } from '../../api/client';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { messageReason } from '../../app/reasons';
import { type Fact, Facts } from '../../components/facts';
import { Failure, Loaded } from '../../components/failure';
import { Json } from '../../components/json';
import { ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { Page, Section } from '../../components/page';
import { Reason } from '../../components/reason';
import { Status } from '../../components/status';
import { t } from '../../text';
import { localServer } from '../channels/mailbox';
import { DeviceOutcomes } from './device-outcomes';

const route = getRouteApi('/p/$projectId/messages/$messageId');
const POLL_MS = 3_000;
const FINAL_STATUSES = new Set(['failed', 'bounced', 'complained', 'suppressed', 'cancelled']);

export function MessageScreen() {
  const { projectId } = useProject();
  const { messageId } = route.useParams();
  const message = useQuery({
    queryKey: [projectId, 'message', messageId],
    queryFn: ({ signal }) => read(api.GET('/messages/{id}', { params: { path: { id: messageId } }, signal })),
    refetchInterval: (query) => (query.state.data && FINAL_STATUSES.has(query.state.data.status) ? false : POLL_MS),
  });
  return (
    <Page
      title={message.data?.subject || t.messages.noSubject}
      actions={message.data && <Status of={message.data.status} />}
    >
      <Loaded query={message}>{(found) => <MessageDetails message={found} />}</Loaded>
    </Page>
  );
}

function MessageDetails({ message }: { message: Schemas['Message'] }) {
  return (
    <Stack gap="xl">
      {message.statusReason && (
        <Alert
          variant="outline"
          color={FINAL_STATUSES.has(message.status) ? 'red' : 'gray'}
          title={t.messages.reason}
          role="note"
        >
          <Reason reason={message.statusReason} words={(reason) => messageReason(reason, message.status)} withCode />
        </Alert>
      )}
      {message.status === 'failed' && <Replay id={message.id} />}
      <Section title={t.messages.timeline}>
        <DeliveryTimeline message={message} />
      </Section>
      <LocalMailNotice message={message} />
      <MessageFacts message={message} />
      {message.devices && message.devices.length > 0 && (
        <Section title={t.messages.devices}>
          <DeviceOutcomes devices={message.devices} />
        </Section>
      )}
      {(message.content ?? message.body) !== null && (
        <Section title={t.messages.content}>
          <Json value={message.content ?? message.body} />
        </Section>
      )}
    </Stack>
  );
}

/** For an email sent to a mail server on this machine: where to find it. */
function LocalMailNotice({ message: { channel, provider, sentAt } }: { message: Schemas['Message'] }) {
  const { projectId } = useProject();
  const isMail = channel === 'EMAIL' && sentAt !== null && provider?.toLowerCase() === 'smtp';
  const channels = useQuery({
    queryKey: [projectId, 'channels', 'local-mail'],
    queryFn: ({ signal }) => read(api.GET('/channels', { signal })),
    enabled: isMail,
  });
  const local = channels.data && localServer(channels.data.email);
  if (!isMail || !local) return null;
  const { server, isMailbox } = local;
  return (
    <Alert variant="outline" color="gray" title={isMailbox ? t.messages.mailbox : t.messages.local} role="note">
      {isMailbox ? t.messages.mailboxText(server) : t.messages.localText(server)}
    </Alert>
  );
}

function DeliveryTimeline({ message }: { message: Schemas['Message'] }) {
  const times = [
    'createdAt',
    'sentAt',
    'deliveredAt',
    'openedAt',
    'clickedAt',
    'bouncedAt',
    'complainedAt',
    'failedAt',
  ] as const;
  const reached = times.filter((time) => message[time] !== null);
  return (
    <Timeline active={reached.length - 1} bulletSize={14}>
      {reached.map((time) => (
        <Timeline.Item key={time} title={t.messages.states[time]}>
          <Text size="sm">
            <Moment at={message[time]} />
          </Text>
        </Timeline.Item>
      ))}
    </Timeline>
  );
}

function MessageFacts({ message }: { message: Schemas['Message'] }) {
  const { projectId } = useProject();
  const userId = message.userId ?? message.anonymousId;
  const { automationId, runId, templateId } = message;
  const facts: Fact[] = [
    [t.messages.channel, t.channelName(message.channel)],
    [
      t.messages.user,
      userId && (
        <ScreenLink key="user" to="/p/$projectId/users/$userId" params={{ projectId, userId }}>
          {userId}
        </ScreenLink>
      ),
    ],
    [
      t.messages.template,
      templateId && (
        <ScreenLink key="template" to="/p/$projectId/templates/$templateId" params={{ projectId, templateId }}>
          {t.messages.view}
        </ScreenLink>
      ),
    ],
    [
      t.messages.automation,
      automationId && (
        <ScreenLink key="automation" to="/p/$projectId/automations/$automationId" params={{ projectId, automationId }}>
          {t.messages.view}
        </ScreenLink>
      ),
    ],
    [
      t.messages.run,
      automationId && runId && (
        <ScreenLink
          key="run"
          to="/p/$projectId/automations/$automationId/runs/$runId"
          params={{ projectId, automationId, runId }}
        >
          {t.messages.view}
        </ScreenLink>
      ),
    ],
    [t.messages.attempts, String(message.attempts)],
    [t.messages.unconfirmed, message.ambiguousAttempts > 0 && String(message.ambiguousAttempts)],
    [t.messages.provider, message.provider],
    [t.messages.providerId, message.providerMessageId],
  ];
  return <Facts label={t.messages.title} facts={facts.filter(([, value]) => value)} />;
}

/** Retries a failed message as a dead letter. The API skips messages whose failure is permanent. */
function Replay({ id }: { id: string }) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const replaying = useMutation({
    mutationFn: () => read(api.POST('/dead-letters/replay', { body: { ids: [id] } })),
    onSuccess({ replayed }) {
      notify(replayed > 0 ? t.messages.resent : t.deadLetters.retried(replayed, false), replayed === 0);
      void client.invalidateQueries({ queryKey: [projectId] });
    },
  });
  return (
    <Group>
      <Text size="sm">{t.messages.resendHint}</Text>
      <Button size="xs" variant="default" loading={replaying.isPending} onClick={() => replaying.mutate()}>
        {t.messages.resend}
      </Button>
      <Failure error={replaying.error} />
    </Group>
  );
}
