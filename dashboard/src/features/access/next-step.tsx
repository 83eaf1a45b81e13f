import { Button, Group, Stack, Text } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { api, read } from '../../api/client';
import { rememberKey, useKnownKey } from '../../app/known-keys';
import { useProject } from '../../app/project';
import type { Example } from '../../app/requests';
import { Empty } from '../../components/empty';
import { Failure } from '../../components/failure';
import { ScreenLink } from '../../components/links';
import { Snippet } from '../../components/snippet';
import { t } from '../../text';
import { keyOf } from './key';

interface Props {
  title: string;
  text: string;
  /** Above the request. */
  label: string;
  request: Example;
  /** What can be done on the screen itself. */
  children?: ReactNode;
}

/** An empty list: what it would hold, and what to do next, here or by a request. */
export function NextStep({ title, text, label, request, children }: Props) {
  return (
    <Empty title={title}>
      <Stack gap="sm" w="100%" align="flex-start">
        <Text>{text}</Text>
        {children && <Group gap="xs">{children}</Group>}
        {request.key === 'public' ? (
          <ByPublicKey label={label} request={request} />
        ) : (
          <BySecretKey label={label} request={request} />
        )}
      </Stack>
    </Empty>
  );
}

/** With the project's own key, if it is known: only a hash of it is kept, so it may have to be a new one. */
function ByPublicKey({ label, request }: { label: string; request: Example }) {
  const { projectId, isAdmin } = useProject();
  const known = useKnownKey(projectId);
  const making = useMutation({
    mutationFn: async () =>
      keyOf(await read(api.POST('/api-keys', { body: { name: t.overview.keyName, type: 'public' } }))),
    onSuccess: (key) => rememberKey(projectId, key),
  });
  return (
    <>
      <Snippet label={label} code={request.code(location.origin, known ?? '$PUBLIC_KEY')} />
      {known ? (
        <Text size="sm">{t.nextStep.known}</Text>
      ) : isAdmin ? (
        <Group gap="xs">
          <Button size="xs" variant="default" loading={making.isPending} onClick={() => making.mutate()}>
            {t.nextStep.make}
          </Button>
          <Text size="sm">{t.nextStep.publicKey}</Text>
        </Group>
      ) : (
        <Text size="sm">{t.nextStep.member}</Text>
      )}
      <Failure error={making.error} />
    </>
  );
}

/** A secret key is shown to nobody again: the shell has it. */
function BySecretKey({ label, request }: { label: string; request: Example }) {
  const { projectId, isAdmin } = useProject();
  return (
    <>
      <Snippet label={label} code={request.code(location.origin, '$SECRET_KEY')} />
      <Text size="sm">
        {isAdmin ? (
          <>
            {t.nextStep.secretKey}{' '}
            <ScreenLink to="/p/$projectId/api-keys" params={{ projectId }} underline="always">
              {t.keys.create}
            </ScreenLink>
          </>
        ) : (
          t.nextStep.member
        )}
      </Text>
    </>
  );
}
