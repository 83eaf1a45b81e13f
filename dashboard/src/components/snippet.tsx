import { Button, Code, CopyButton, Group, Modal, Paper, Stack, Text } from '@mantine/core';
import { t } from '../text';

export function Copy({ value, label = t.copy }: { value: string; label?: string }) {
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <Button size="xs" variant="default" onClick={copy}>
          {copied ? t.copied : label}
        </Button>
      )}
    </CopyButton>
  );
}

/** Code with a copy button. */
export function Snippet({ label, code }: { label: string; code: string }) {
  return (
    <Paper withBorder p="sm" w="100%">
      <Group justify="space-between" mb={4}>
        <Text size="sm" fw={500}>
          {label}
        </Text>
        <Copy value={code} />
      </Group>
      <Code block tabIndex={0} style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
        {code}
      </Code>
    </Paper>
  );
}

/** Dialog for a secret that is shown once. Only its buttons close it. */
export function SecretOnce({ title, secret, onClose }: { title: string; secret: string | null; onClose: () => void }) {
  return (
    <Modal
      opened={secret !== null}
      onClose={onClose}
      title={title}
      closeOnClickOutside={false}
      closeOnEscape={false}
      closeButtonProps={{ 'aria-label': t.close }}
    >
      <Stack>
        <Text size="sm">{t.secretOnce}</Text>
        <Code block style={{ overflowWrap: 'anywhere', whiteSpace: 'pre-wrap' }} data-testid="secret">
          {secret}
        </Code>
        <Group justify="flex-end">
          <Copy value={secret ?? ''} />
          <Button onClick={onClose}>{t.done}</Button>
        </Group>
      </Stack>
    </Modal>
  );
}
