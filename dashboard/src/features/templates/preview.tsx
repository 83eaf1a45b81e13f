import { Alert, Button, Group, List, Paper, SegmentedControl, Stack, Text, TextInput } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { isReadable } from '../../app/typed-json';
import { Loaded } from '../../components/failure';
import { JsonInput } from '../../components/json';
import { MessageFrame } from '../../components/message-frame';
import { Section } from '../../components/page';
import { t } from '../../text';

const MOBILE_WIDTH = 390;

interface PreviewInput {
  userId: string;
  data: unknown;
}

/** Preview of the stored template, rendered by the same code as real messages. */
export function Preview({ template, isDirty }: { template: Schemas['Template'] | null; isDirty: boolean }) {
  const { projectId } = useProject();
  const [input, setInput] = useState<PreviewInput>({ userId: '', data: undefined });
  const [applied, setApplied] = useState<PreviewInput>(input);
  const [mobile, setMobile] = useState(false);
  const [dark, setDark] = useState(false);
  const preview = useQuery({
    queryKey: [projectId, 'preview', template?.id, template?.updatedAt, applied],
    queryFn({ signal }) {
      const body = {
        ...(applied.userId ? { userId: applied.userId } : {}),
        ...(applied.data === undefined ? {} : { data: applied.data as Record<string, unknown> }),
      };
      return read(api.POST('/templates/{id}/preview', { params: { path: { id: template?.id ?? '' } }, body, signal }));
    },
    enabled: template !== null,
    placeholderData: keepPreviousData,
  });
  if (!template) {
    return (
      <Section title={t.templates.preview}>
        <Text size="sm">{t.templates.previewNew}</Text>
      </Section>
    );
  }
  return (
    <Section title={t.templates.preview}>
      <Stack>
        <Text size="sm" c="dimmed">
          {isDirty ? t.templates.previewUnsaved : t.templates.previewHint}
        </Text>
        <Group align="flex-end">
          <TextInput
            label={t.templates.as}
            description={t.templates.asHint}
            value={input.userId}
            onChange={(event) => setInput({ ...input, userId: event.currentTarget.value })}
          />
          <Button variant="default" disabled={!isReadable(input.data)} onClick={() => setApplied(input)}>
            {t.templates.refresh}
          </Button>
        </Group>
        <JsonInput
          label={t.templates.data}
          rows={2}
          value={input.data}
          onChange={(data) => setInput({ ...input, data })}
        />
        <Loaded query={preview}>
          {({ subject, body, warnings }) => (
            <Stack>
              {warnings.length > 0 && (
                <Alert color="yellow" variant="outline" title={t.templates.warnings} role="note">
                  <List size="sm">
                    {warnings.map((warning) => (
                      <List.Item key={warning}>{warning}</List.Item>
                    ))}
                  </List>
                </Alert>
              )}
              {subject && (
                <Text fw={600} data-testid="preview-subject">
                  {subject}
                </Text>
              )}
              {template.channel === 'EMAIL' ? (
                <>
                  <Group>
                    <SegmentedControl
                      aria-label={t.templates.width}
                      value={String(mobile)}
                      onChange={(value) => setMobile(value === 'true')}
                      data={[
                        { value: 'false', label: t.templates.desktop },
                        { value: 'true', label: t.templates.mobile },
                      ]}
                    />
                    <SegmentedControl
                      aria-label={t.templates.scheme}
                      value={String(dark)}
                      onChange={(value) => setDark(value === 'true')}
                      data={[
                        { value: 'false', label: t.templates.light },
                        { value: 'true', label: t.templates.dark },
                      ]}
                    />
                  </Group>
                  <MessageFrame
                    title={t.templates.frame}
                    html={body}
                    width={mobile ? MOBILE_WIDTH : '100%'}
                    dark={dark}
                  />
                </>
              ) : (
                <Paper withBorder p="md">
                  <Text style={{ whiteSpace: 'pre-wrap' }}>{body}</Text>
                </Paper>
              )}
            </Stack>
          )}
        </Loaded>
      </Stack>
    </Section>
  );
}
