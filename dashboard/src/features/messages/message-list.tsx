import { Box } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Schemas } from '../../api/client';
import { messageReason } from '../../app/reasons';
import { Listing } from '../../components/listing';
import { ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { Reason } from '../../components/reason';
import { Status } from '../../components/status';
import { t } from '../../text';

type Message = Schemas['Message'];

export function MessageList({
  messages,
  projectId,
  empty,
}: {
  messages: Message[];
  projectId: string;
  empty: ReactNode;
}) {
  return (
    <Listing
      label={t.messages.title}
      rows={messages}
      id={(message) => message.id}
      empty={empty}
      columns={[
        { title: t.messages.created, cell: (message) => <Moment at={message.createdAt} /> },
        {
          title: t.messages.subject,
          cell: (message) => (
            <ScreenLink
              to="/p/$projectId/messages/$messageId"
              params={{ projectId, messageId: message.id }}
              lineClamp={1}
            >
              {message.subject || t.messages.noSubject}
            </ScreenLink>
          ),
        },
        { title: t.messages.channel, cell: (message) => t.channelName(message.channel) },
        {
          title: t.messages.status,
          cell: (message) => (
            <Box miw="max-content">
              <Status of={message.status} />
            </Box>
          ),
        },
        {
          title: t.messages.reason,
          cell: (message) => (
            <Reason
              reason={message.statusReason}
              words={(reason) => messageReason(reason, message.status)}
              maw={260}
              lineClamp={2}
            />
          ),
        },
        {
          title: t.messages.user,
          cell: (message) => {
            const userId = message.userId ?? message.anonymousId;
            return userId === null ? (
              '–'
            ) : (
              <ScreenLink to="/p/$projectId/users/$userId" params={{ projectId, userId }}>
                {userId}
              </ScreenLink>
            );
          },
        },
      ]}
    />
  );
}
