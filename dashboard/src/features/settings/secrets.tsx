import { Button, Code, Group, Stack, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { notify } from '../../app/notice';
import { ConfirmButton } from '../../components/confirm-button';
import { Moment } from '../../components/moment';
import { Section } from '../../components/page';
import { Copy } from '../../components/snippet';
import { t } from '../../text';

export function Secrets({ project }: { project: Schemas['Project'] }) {
  const client = useQueryClient();
  const rotate = () => read(api.POST('/projects/{id}/webhook-secret', { params: { path: { id: project.id } } }));
  const rotateSigning = () => read(api.POST('/projects/{id}/signing-secret', { params: { path: { id: project.id } } }));
  const done = (message: string) => () => {
    notify(message);
    void client.invalidateQueries({ queryKey: [project.id, 'project'] });
  };
  return (
    <Section title={t.settings.secrets}>
      <Stack>
        <Hidden name={t.settings.webhookSecret} hint={t.settings.webhookHint} value={project.webhookSecret ?? ''} />
        <Text size="sm">
          {t.settings.webhookUrl}:{' '}
          <Code style={{ overflowWrap: 'anywhere' }}>{`${location.origin}/api/v1/webhook/${project.id}`}</Code>
        </Text>
        {project.previousWebhookSecretUntil && (
          <Text size="sm">
            {t.settings.previousUntil} <Moment at={project.previousWebhookSecretUntil} />
          </Text>
        )}
        <Group>
          <ConfirmButton
            label={t.settings.rotate}
            title={t.settings.rotateTitle}
            action={rotate}
            onDone={done(t.settings.rotated)}
          >
            {t.settings.rotateText}
          </ConfirmButton>
        </Group>
        <Hidden name={t.settings.signingSecret} hint={t.settings.signingHint} value={project.signingSecret ?? ''} />
        {project.previousSigningSecretUntil && (
          <Text size="sm">
            {t.settings.previousSigningUntil} <Moment at={project.previousSigningSecretUntil} />
          </Text>
        )}
        <Group>
          <ConfirmButton
            label={t.settings.rotateSigning}
            title={t.settings.rotateSigningTitle}
            action={rotateSigning}
            onDone={done(t.settings.signingRotated)}
          >
            {t.settings.rotateSigningText}
          </ConfirmButton>
        </Group>
        <Hidden name={t.settings.identitySecret} hint={t.settings.identityHint} value={project.identitySecret ?? ''} />
      </Stack>
    </Section>
  );
}

function Hidden({ name, hint, value }: { name: string; hint: string; value: string }) {
  const [shown, setShown] = useState(false);
  return (
    <div>
      <Text fw={500}>{name}</Text>
      <Text size="sm" c="dimmed">
        {hint}
      </Text>
      <Group gap="xs" mt={4}>
        <Code style={{ overflowWrap: 'anywhere' }}>{shown ? value : '••••••••••••••••'}</Code>
        <Button
          size="xs"
          variant="default"
          aria-label={`${shown ? t.settings.hide : t.settings.show}: ${name}`}
          onClick={() => setShown(!shown)}
        >
          {shown ? t.settings.hide : t.settings.show}
        </Button>
        {shown && <Copy value={value} />}
      </Group>
    </div>
  );
}
