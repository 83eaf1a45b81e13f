import { Button, Group, Stack, Text } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { api, read } from '../../api/client';
import { rememberKey } from '../../app/known-keys';
import { useProject } from '../../app/project';
import { Empty } from '../../components/empty';
import { Failure } from '../../components/failure';
import { ButtonLink } from '../../components/links';
import { Snippet } from '../../components/snippet';
import { firstEvent } from '../../app/requests';
import { keyOf } from '../access/key';
import { t } from '../../text';

/** What an empty project needs, with a key of its own: as it is shown this once, it stays when the first event is there. */
export function FirstSteps({ isEmpty }: { isEmpty: boolean }) {
  const { projectId, isAdmin } = useProject();
  const making = useMutation({ mutationFn: async () => keyOf(await read(api.POST('/api-keys', { body: { name: t.overview.keyName, type: 'public' } }))), onSuccess: (key) => rememberKey(projectId, key) });
  const key = making.data;
  if (!isEmpty && making.isIdle) return null;
  return (
    <Empty title={isEmpty ? t.overview.emptyTitle : t.overview.begunTitle}>
      <Stack gap="sm" w="100%" align="flex-start">
        <Text>{!isEmpty ? t.overview.begunText : isAdmin ? t.overview.emptyText : t.overview.emptyMember}</Text>
        {isAdmin && !key && (
          <Button loading={making.isPending} onClick={() => making.mutate()}>
            {t.overview.makeKey}
          </Button>
        )}
        <Failure error={making.error} />
        {key && <Snippet label={t.overview.snippet} code={firstEvent(location.origin, key)} />}
        <Text fw={500}>{t.overview.next}</Text>
        <Group gap="xs">
          <ButtonLink size="xs" variant="default" to="/p/$projectId/templates/$templateId" params={{ projectId, templateId: 'new' }}>
            {t.overview.steps.template}
          </ButtonLink>
          <ButtonLink size="xs" variant="default" to="/p/$projectId/automations/$automationId" params={{ projectId, automationId: 'new' }}>
            {t.overview.steps.automation}
          </ButtonLink>
          <ButtonLink size="xs" variant="default" to="/p/$projectId/channels" params={{ projectId }}>
            {t.overview.steps.channels}
          </ButtonLink>
        </Group>
      </Stack>
    </Empty>
  );
}
