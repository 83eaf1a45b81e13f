import { Button, Grid, Group, NativeSelect, Skeleton, Stack, TextInput, Textarea } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { Suspense, lazy } from 'react';
import { type Schemas, type Tagged, api, apiFor, ifMatch, read, readTagged } from '../../api/client';
import { problemOf } from '../../api/failure';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { formatList, parseList } from '../../app/texts';
import { CHANNELS, type Channel } from '../../app/values';
import { namesOf } from '../../app/field-labels';
import { ConfirmButton } from '../../components/confirm-button';
import { UnsavedChangesGuard } from '../../components/draft';
import { Page } from '../../components/page';
import { NotSaved, RecordScreen, useEdited } from '../../components/record';
import { t } from '../../text';
import { Preview } from './preview';
import { AiDraft } from './ai-draft';

const FIELDS = {
  name: t.templates.name,
  channel: t.templates.channel,
  subject: t.templates.subject,
  body: t.templates.body,
  url: t.templates.url,
  tags: t.templates.tags,
};
const EMAIL_FIELD_NAMES = namesOf(FIELDS);
const OTHER_FIELD_NAMES = namesOf({ ...FIELDS, subject: t.templates.heading });

const CodeEditor = lazy(() => import('../../components/code-editor'));
const route = getRouteApi('/p/$projectId/templates/$templateId');

type Template = Schemas['Template'];

interface Fields {
  name: string;
  channel: Channel;
  subject: string;
  body: string;
  /** URL that a tap on a push notification opens; empty for none. */
  url: string;
  tags: string;
  ai: boolean;
}

const EMPTY: Fields = { name: '', channel: 'EMAIL', subject: '', body: '', url: '', tags: '', ai: false };

function fieldsOf(template: Template): Fields {
  const { name, channel, subject, body, url, tags, ai } = template;
  return { name, channel, subject, body, url: url ?? '', tags: formatList(tags), ai };
}

/** Returns the request body; only push templates have a URL. */
function inputOf({ url, tags, ...fields }: Fields) {
  return {
    ...fields,
    ...(fields.channel === 'PUSH' && { url: url.trim() === '' ? null : url.trim() }),
    tags: parseList(tags),
  };
}

export function TemplateScreen() {
  const { projectId } = useProject();
  const { templateId } = route.useParams();
  return (
    <RecordScreen<Template>
      id={templateId}
      title={t.templates.title}
      queryKey={[projectId, 'template', templateId]}
      read={(signal) =>
        readTagged(apiFor(projectId).GET('/templates/{id}', { params: { path: { id: templateId } }, signal }))
      }
    >
      {(opened, _, onCreated) => <Editor opened={opened} onCreated={onCreated} />}
    </RecordScreen>
  );
}

function Editor({ opened, onCreated }: { opened: Tagged<Template> | null; onCreated: (id: string) => void }) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const api = apiFor(projectId);
  const edited = useEdited<Template, Fields>({
    opened,
    empty: EMPTY,
    fieldsOf,
    create: (fields) => readTagged(api.POST('/templates', { body: inputOf(fields) })),
    change: ({ id }, fields, _, tag) =>
      readTagged(api.PUT('/templates/{id}', { params: { path: { id }, header: ifMatch(tag) }, body: inputOf(fields) })),
    reload: ({ id }) => readTagged(api.GET('/templates/{id}', { params: { path: { id } } })),
    async onSaved(saved, { isNew, isMounted }) {
      const { id } = saved.value;
      notify(t.saved);
      void client.invalidateQueries({ queryKey: [projectId, 'templates'] });
      if (!isNew || !isMounted) return;
      onCreated(id);
      await navigate({
        to: '/p/$projectId/templates/$templateId',
        params: { projectId, templateId: id },
        replace: true,
        ignoreBlocker: true,
      });
    },
  });
  const { stored, draft, saving } = edited;
  const { value, set } = draft;
  const error = saving.error;
  const hasSubject = value.channel !== 'SMS';
  return (
    <Page
      title={stored ? stored.name : t.templates.newTitle}
      actions={
        <>
          {stored && <Remove template={stored} tag={edited.tag} />}
          <Button onClick={edited.save} loading={saving.isPending} disabled={stored !== null && !draft.isDirty}>
            {t.save}
          </Button>
        </>
      }
    >
      <UnsavedChangesGuard when={draft.isDirty} />
      <NotSaved edited={edited} nameField={value.channel === 'EMAIL' ? EMAIL_FIELD_NAMES : OTHER_FIELD_NAMES} />
      <Grid gap="xl">
        <Grid.Col span={{ base: 12, lg: 6 }}>
          <Stack>
            <TextInput
              label={t.templates.name}
              required
              value={value.name}
              onChange={(event) => set({ name: event.currentTarget.value })}
              error={problemOf(error, 'name')}
            />
            <NativeSelect
              label={t.templates.channel}
              value={value.channel}
              disabled={stored !== null}
              onChange={(event) =>
                set({ channel: CHANNELS.find((each) => each === event.currentTarget.value) ?? 'EMAIL' })
              }
              data={CHANNELS.map((channel) => ({ value: channel, label: t.channelName(channel) }))}
            />
            {hasSubject && (
              <TextInput
                label={value.channel === 'EMAIL' ? t.templates.subject : t.templates.heading}
                value={value.subject}
                onChange={(event) => set({ subject: event.currentTarget.value })}
                error={problemOf(error, 'subject')}
              />
            )}
            {value.channel === 'EMAIL' ? (
              <Suspense fallback={<Skeleton height={280} />}>
                <CodeEditor
                  label={t.templates.body}
                  description={t.templates.bodyHint.EMAIL}
                  value={value.body}
                  onChange={(body) => set({ body })}
                  error={problemOf(error, 'body')}
                />
              </Suspense>
            ) : (
              <Textarea
                label={t.templates.body}
                description={t.templates.bodyHint.other}
                autosize
                minRows={5}
                maxRows={20}
                value={value.body}
                onChange={(event) => set({ body: event.currentTarget.value })}
                error={problemOf(error, 'body')}
              />
            )}
            {value.channel === 'PUSH' && (
              <TextInput
                label={t.templates.url}
                description={t.templates.urlHint}
                value={value.url}
                onChange={(event) => set({ url: event.currentTarget.value })}
                error={problemOf(error, 'url')}
              />
            )}
            <TextInput
              label={t.templates.tags}
              description={t.templates.tagsHint}
              value={value.tags}
              onChange={(event) => set({ tags: event.currentTarget.value })}
              error={problemOf(error, 'tags')}
            />
            <AiDraft
              channel={value.channel}
              onWritten={(title, body) => set({ subject: hasSubject ? title : '', body, ai: true })}
            />
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 6 }}>
          <Preview template={stored} isDirty={draft.isDirty} />
        </Grid.Col>
      </Grid>
    </Page>
  );
}

function Remove({ template, tag }: { template: Template; tag: string | null }) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const leave = (isMounted: boolean) => {
    notify(t.templates.removed);
    void client.invalidateQueries({ queryKey: [projectId, 'templates'] });
    if (isMounted) void navigate({ to: '/p/$projectId/templates', params: { projectId }, ignoreBlocker: true });
  };
  return (
    <Group>
      <ConfirmButton
        label={t.remove}
        title={t.templates.removeTitle}
        size="sm"
        action={() =>
          read(api.DELETE('/templates/{id}', { params: { path: { id: template.id }, header: ifMatch(tag) } }))
        }
        onDone={leave}
      >
        {t.templates.remove(template.name)}
      </ConfirmButton>
    </Group>
  );
}
