import { Button, Group, NativeSelect, Stack, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { namesOf } from '../../app/field-labels';
import { messageReason } from '../../app/reasons';
import { Failure } from '../../components/failure';
import { Listing } from '../../components/listing';
import { ScreenLink } from '../../components/links';
import { Section } from '../../components/page';
import { Reason } from '../../components/reason';
import { Status } from '../../components/status';
import { t } from '../../text';

const FIELD_NAMES = namesOf({
  to: t.campaigns.testTo,
  userIds: t.campaigns.testUsers,
  asUserId: t.campaigns.testAs,
  variant: t.campaigns.byVariant,
});

const listOf = (text: string) =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter(Boolean);

export function TestSend({ campaign }: { campaign: Schemas['Campaign'] }) {
  const { projectId } = useProject();
  const [to, setTo] = useState('');
  const [users, setUsers] = useState('');
  const [as, setAs] = useState('');
  const [variant, setVariant] = useState('');
  const sending = useMutation({
    mutationFn() {
      const body = {
        ...(to && { to: listOf(to) }),
        ...(users && { userIds: listOf(users) }),
        ...(as && { asUserId: as }),
        ...(variant && { variant }),
      };
      // Wait up to 5 seconds, so that the response includes the outcome.
      return read(
        api.POST('/campaigns/{id}/test', { params: { path: { id: campaign.id }, header: { Prefer: 'wait=5' } }, body }),
      );
    },
  });
  return (
    <Section title={t.campaigns.test}>
      <Stack align="flex-start">
        <Group align="flex-end">
          <TextInput
            label={t.campaigns.testTo}
            description={t.campaigns.testToHint}
            value={to}
            onChange={(event) => setTo(event.currentTarget.value)}
          />
          <TextInput
            label={t.campaigns.testUsers}
            description={t.campaigns.testUsersHint}
            value={users}
            onChange={(event) => setUsers(event.currentTarget.value)}
          />
          <TextInput label={t.campaigns.testAs} value={as} onChange={(event) => setAs(event.currentTarget.value)} />
          {campaign.variants.length > 0 && (
            <NativeSelect
              label={t.campaigns.byVariant}
              value={variant}
              onChange={(event) => setVariant(event.currentTarget.value)}
              data={[{ value: '', label: t.any }, ...campaign.variants.map(({ name }) => name)]}
            />
          )}
          <Button
            variant="default"
            loading={sending.isPending}
            disabled={!to && !users}
            onClick={() => sending.mutate()}
          >
            {t.campaigns.testSend}
          </Button>
        </Group>
        <Failure error={sending.error} nameField={FIELD_NAMES} />
        {sending.data && (
          <Listing
            label={t.campaigns.testResults}
            rows={sending.data.messages}
            id={(message) => message.id}
            columns={[
              { title: t.campaigns.recipient, cell: (message) => message.to ?? message.userId ?? '–' },
              { title: t.messages.status, cell: (message) => <Status of={message.status} /> },
              {
                title: t.messages.reason,
                cell: (message) => (
                  <Reason reason={message.statusReason} words={(reason) => messageReason(reason, message.status)} />
                ),
              },
              {
                title: t.messages.view,
                cell: (message) => (
                  <ScreenLink to="/p/$projectId/messages/$messageId" params={{ projectId, messageId: message.id }}>
                    {t.messages.view}
                  </ScreenLink>
                ),
              },
            ]}
          />
        )}
      </Stack>
    </Section>
  );
}
