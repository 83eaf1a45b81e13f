import { Button, Stack, Text, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { api, read } from '../../api/client';
import { runReason } from '../../app/reasons';
import { isReadable } from '../../app/typed-json';
import { namesOf } from '../../app/field-labels';
import { Failure } from '../../components/failure';
import { JsonInput } from '../../components/json';
import { Section } from '../../components/page';
import { t } from '../../text';
import { Path } from './path';

const FIELD_NAMES = namesOf({
  userId: t.automations.simulateUser,
  properties: t.automations.simulateProperties,
  events: t.automations.simulateEvents,
  event: t.automations.trigger,
  'event.properties': t.automations.simulateTrigger,
});

function reasonTitle(reason: string | null): string | null {
  return reason && (runReason(reason)?.title ?? reason);
}

/** Simulates a run without sending messages. */
export function Simulation({ automationId }: { automationId: string }) {
  const [userId, setUserId] = useState('');
  const [properties, setProperties] = useState<unknown>(undefined);
  const [trigger, setTrigger] = useState<unknown>(undefined);
  const [events, setEvents] = useState<unknown>(undefined);
  const trying = useMutation({
    mutationFn() {
      const body = {
        ...(userId && { userId }),
        ...(properties !== undefined && { properties }),
        ...(trigger !== undefined && { event: { properties: trigger } }),
        ...(events !== undefined && { events }),
      };
      return read(
        api.POST('/automations/{id}/simulate', { params: { path: { id: automationId } }, body: body as never }),
      );
    },
  });
  return (
    <Section title={t.automations.simulate}>
      <Stack>
        <Text size="sm" c="dimmed">
          {t.automations.simulateHint}
        </Text>
        <TextInput
          size="xs"
          label={t.automations.simulateUser}
          value={userId}
          onChange={(event) => setUserId(event.currentTarget.value)}
        />
        <JsonInput label={t.automations.simulateProperties} rows={1} value={properties} onChange={setProperties} />
        <JsonInput label={t.automations.simulateTrigger} rows={1} value={trigger} onChange={setTrigger} />
        <JsonInput label={t.automations.simulateEvents} rows={1} value={events} onChange={setEvents} />
        <Failure error={trying.error} nameField={FIELD_NAMES} />
        <Button
          variant="default"
          loading={trying.isPending}
          disabled={!isReadable([properties, trigger, events])}
          onClick={() => trying.mutate()}
        >
          {t.automations.simulateRun}
        </Button>
        {trying.data && (
          <div role="status">
            <Text size="sm">
              {trying.data.admitted ? t.automations.wouldEnter : t.automations.wouldNotEnter}{' '}
              {trying.data.status &&
                t.automations.simulatedEnd(
                  t.statuses[trying.data.status] ?? trying.data.status,
                  reasonTitle(trying.data.reason),
                )}
            </Text>
            <Path path={trying.data.path} />
          </div>
        )}
      </Stack>
    </Section>
  );
}
