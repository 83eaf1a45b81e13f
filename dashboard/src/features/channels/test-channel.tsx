import { Alert, Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { namesOf } from '../../app/field-labels';
import { Failure } from '../../components/failure';
import { messageReason } from '../../app/reasons';
import { ScreenLink } from '../../components/links';
import { Reason } from '../../components/reason';
import { Section } from '../../components/page';
import { t } from '../../text';
import { DeviceOutcomes } from '../messages/device-outcomes';

const FIELD_NAMES = namesOf({ to: t.channels.testTo, userId: t.channels.testUser });

/** Sends a real message with the stored configuration and shows the provider's response. */
export function TestChannel({ channel }: { channel: 'email' | 'push' | 'sms' | 'in_app' }) {
  const { projectId } = useProject();
  const [to, setTo] = useState('');
  const byAddress = channel === 'email' || channel === 'sms';
  const sending = useMutation({
    mutationFn: () =>
      read(
        api.POST('/channels/{id}/test', {
          params: { path: { id: channel } },
          body: byAddress ? { to } : { userId: to },
        }),
      ),
  });
  const result = sending.data;
  return (
    <Section title={t.channels.test}>
      <Stack>
        <Group align="flex-end">
          <TextInput
            label={byAddress ? t.channels.testTo : t.channels.testUser}
            description={
              channel === 'email' || channel === 'sms' ? t.channels.testToHint[channel] : t.channels.testUserHint
            }
            value={to}
            onChange={(event) => setTo(event.currentTarget.value)}
          />
          <Button variant="default" loading={sending.isPending} disabled={!to} onClick={() => sending.mutate()}>
            {t.channels.testSend}
          </Button>
        </Group>
        <Failure error={sending.error} nameField={FIELD_NAMES} />
        {result && (
          <Alert
            color={result.success ? 'teal' : 'red'}
            variant="outline"
            title={result.success ? t.channels.accepted : t.channels.rejected}
            role="status"
          >
            {result.reason && (
              <Reason reason={result.reason} words={(reason) => messageReason(reason, result.status)} withCode />
            )}
            {result.advice && (
              <Text size="sm">
                {t.channels.howToFix}: {result.advice}
              </Text>
            )}
            {result.devices && result.devices.length > 0 && (
              // openapi.yaml does not describe these objects; they are those of `Message.devices`.
              <DeviceOutcomes devices={result.devices as unknown as NonNullable<Schemas['Message']['devices']>} />
            )}
            <ScreenLink
              size="sm"
              to="/p/$projectId/messages/$messageId"
              params={{ projectId, messageId: result.messageId }}
            >
              {t.channels.viewMessage}
            </ScreenLink>
          </Alert>
        )}
      </Stack>
    </Section>
  );
}
