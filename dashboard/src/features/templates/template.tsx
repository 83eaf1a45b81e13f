import { Button, Grid, Group, NativeSelect, Skeleton, Stack, TextInput, Textarea } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { Suspense, lazy } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { listed, readList } from '../../app/texts';
import { CHANNELS, type Channel } from '../../app/values';
import { Ask } from '../../components/ask';
import { KeepChanges, useDraft } from '../../components/draft';
import { Failure, Loaded } from '../../components/failure';
import { Page } from '../../components/page';
import { t } from '../../text';
import { Preview } from './preview';
import { Written } from './written';

const CodeEditor = lazy(() => import('../../components/code-editor'));
const route = getRouteApi('/p/$projectId/templates/$templateId');

interface Fields {
  name: string;
  channel: Channel;
  subject: string;
  body: string;
  /** What a tap on a push opens; empty where nothing. */
  url: string;
  tags: string;
  ai: boolean;
}

const EMPTY: Fields = { name: '', channel: 'EMAIL', subject: '', body: '', url: '', tags: '', ai: false };

function fieldsOf(template: Schemas['Template']): Fields {
  const { name, channel, subject, body, url, tags, ai } = template;
  return { name, channel, subject, body, url: url ?? '', tags: listed(tags), ai };
}

/** What the API is told of them: a URL is a push's only. */
function bodyOf({ url, tags, ...fields }: Fields) {
  return { ...fields, ...(fields.channel === 'PUSH' && { url: url.trim() === '' ? null : url.trim() }), tags: readList(tags) };
}

export function TemplateScreen() {
  const { projectId } = useProject();
  const { templateId } = route.useParams();
  const isNew = templateId === 'new';
  const template = useQuery({
    queryKey: [projectId, 'template', templateId],
    queryFn: ({ signal }) => read(api.GET('/templates/{id}', { params: { path: { id: templateId } }, signal })),
    enabled: !isNew,
    // What is being edited stays as it was when it was opened.
    staleTime: Infinity,
    gcTime: 0,
  });
  if (isNew) return <Editor key="new" stored={null} />;
  if (!template.data) return <Page title={t.templates.title}><Loaded query={template}>{() => null}</Loaded></Page>;
  return <Editor key={templateId} stored={template.data} />;
}

function Editor({ stored }: { stored: Schemas['Template'] | null }) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const draft = useDraft(stored ? fieldsOf(stored) : EMPTY);
  const { value, set } = draft;
  const saving = useMutation({
    mutationFn(fields: Fields) {
      const body = bodyOf(fields);
      return stored ? read(api.PUT('/templates/{id}', { params: { path: { id: stored.id } }, body })) : read(api.POST('/templates', { body }));
    },
    async onSuccess(saved, sent) {
      draft.settle(sent, fieldsOf(saved));
      notify(t.saved);
      // A new one is read by the screen that it is opened on next.
      if (stored) client.setQueryData([projectId, 'template', saved.id], saved);
      void client.invalidateQueries({ queryKey: [projectId, 'templates'] });
      if (!stored) await navigate({ to: '/p/$projectId/templates/$templateId', params: { projectId, templateId: saved.id }, replace: true, ignoreBlocker: true });
    },
  });
  const shown = saving.data ?? stored;
  const error = saving.error;
  const hasSubject = value.channel !== 'SMS';
  return (
    <Page
      title={stored ? stored.name : t.templates.newTitle}
      actions={
        <>
          {stored && <Remove template={stored} />}
          <Button onClick={() => saving.mutate(value)} loading={saving.isPending} disabled={stored !== null && !draft.isDirty}>
            {t.save}
          </Button>
        </>
      }
    >
      <KeepChanges when={draft.isDirty} />
      <Failure error={error} />
      <Grid gap="xl">
        <Grid.Col span={{ base: 12, lg: 6 }}>
          <Stack>
            <TextInput label={t.templates.name} required value={value.name} onChange={(event) => set({ name: event.currentTarget.value })} error={problemOf(error, 'name')} />
            <NativeSelect
              label={t.templates.channel}
              value={value.channel}
              disabled={stored !== null}
              onChange={(event) => set({ channel: CHANNELS.find((each) => each === event.currentTarget.value) ?? 'EMAIL' })}
              data={CHANNELS.map((channel) => ({ value: channel, label: t.channelName(channel) }))}
            />
            {hasSubject && (
              <TextInput label={value.channel === 'EMAIL' ? t.templates.subject : t.templates.heading} value={value.subject} onChange={(event) => set({ subject: event.currentTarget.value })} error={problemOf(error, 'subject')} />
            )}
            {value.channel === 'EMAIL' ? (
              <Suspense fallback={<Skeleton height={280} />}>
                <CodeEditor label={t.templates.body} description={t.templates.bodyHint.EMAIL} value={value.body} onChange={(body) => set({ body })} error={problemOf(error, 'body')} />
              </Suspense>
            ) : (
              <Textarea label={t.templates.body} description={t.templates.bodyHint.other} autosize minRows={5} maxRows={20} value={value.body} onChange={(event) => set({ body: event.currentTarget.value })} error={problemOf(error, 'body')} />
            )}
            {value.channel === 'PUSH' && <TextInput label={t.templates.url} description={t.templates.urlHint} value={value.url} onChange={(event) => set({ url: event.currentTarget.value })} error={problemOf(error, 'url')} />}
            <TextInput label={t.templates.tags} description={t.templates.tagsHint} value={value.tags} onChange={(event) => set({ tags: event.currentTarget.value })} error={problemOf(error, 'tags')} />
            <Written channel={value.channel} onWritten={(title, body) => set({ subject: hasSubject ? title : '', body, ai: true })} />
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 6 }}>
          <Preview template={shown} isDirty={draft.isDirty} />
        </Grid.Col>
      </Grid>
    </Page>
  );
}

function Remove({ template }: { template: Schemas['Template'] }) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const leave = () => {
    notify(t.templates.removed);
    void client.invalidateQueries({ queryKey: [projectId, 'templates'] });
    void navigate({ to: '/p/$projectId/templates', params: { projectId }, ignoreBlocker: true });
  };
  return (
    <Group>
      <Ask label={t.remove} title={t.templates.removeTitle} size="sm" act={() => read(api.DELETE('/templates/{id}', { params: { path: { id: template.id } } }))} onDone={leave}>
        {t.templates.remove(template.name)}
      </Ask>
    </Group>
  );
}
