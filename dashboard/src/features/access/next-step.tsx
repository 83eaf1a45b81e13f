import { Button, Group, Stack, Text } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { api, read } from '../../api/client';
import { cacheKey, useCachedKey } from '../../app/key-cache';
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
  /** Label of the request. */
  label: string;
  request: Example;
  /** Actions that are available on the screen itself. */
  children?: ReactNode;
}

/** Empty state of a list: an explanation, and the next step on the screen or through the API. */
export function NextStep({ title, text, label, request, children }: Props) {
  return (
    <Empty title={title}>
      <Stack gap="sm" w="100%" align="flex-start">
        <Text>{text}</Text>
        {children && <Group gap="xs">{children}</Group>}
        {request.key === 'public' ? (
          <PublicKeyRequest label={label} request={request} />
        ) : (
          <SecretKeyRequest label={label} request={request} />
        )}
      </Stack>
    </Empty>
  );
}

/** A request with one of the project's public keys. The server keeps only hashes, so a new key may have to be created. */
function PublicKeyRequest({ label, request }: { label: string; request: Example }) {
  const { projectId, isAdmin } = useProject();
  const key = useCachedKey(projectId);
  const creating = useMutation({
    mutationFn: async () =>
      keyOf(await read(api.POST('/api-keys', { body: { name: t.overview.keyName, type: 'public' } }))),
    onSuccess: (created) => cacheKey(projectId, created),
  });
  return (
    <>
      <Snippet label={label} code={request.code(location.origin, key ?? '$PUBLIC_KEY')} />
      {key ? (
        <Text size="sm">{t.nextStep.keyShown}</Text>
      ) : isAdmin ? (
        <Group gap="xs">
          <Button size="xs" variant="default" loading={creating.isPending} onClick={() => creating.mutate()}>
            {t.nextStep.createKey}
          </Button>
          <Text size="sm">{t.nextStep.publicKey}</Text>
        </Group>
      ) : (
        <Text size="sm">{t.nextStep.member}</Text>
      )}
      <Failure error={creating.error} />
    </>
  );
}

/** A request with a secret key, which is never shown again and comes from a shell variable. */
function SecretKeyRequest({ label, request }: { label: string; request: Example }) {
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
