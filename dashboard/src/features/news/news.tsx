import { Button, Group, Paper, Stack, Switch, Text, TextInput, Textarea, Title } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type Schemas, type Tagged, api, apiFor, ifMatch, read, readTagged } from '../../api/client';
import { problemOf } from '../../api/failure';
import { changesOf } from '../../app/draft';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { REQUESTS } from '../../app/requests';
import { namesOf } from '../../app/field-labels';
import { ConfirmButton } from '../../components/confirm-button';
import { EditorModal, Unsaved } from '../../components/editor-modal';
import { Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { Moment } from '../../components/moment';
import { Page } from '../../components/page';
import { NotSaved, OpenedRecord, useEdited } from '../../components/record';
import { Status } from '../../components/status';
import { t } from '../../text';
import { NextStep } from '../access/next-step';

const FIELD_NAMES = namesOf({ title: t.news.heading, body: t.news.body, published: t.news.isPublished });

type Item = Schemas['NewsItem'];

export function News() {
  const { projectId } = useProject();
  const client = useQueryClient();
  const [edited, setEdited] = useState<string | null>(null);
  const key = [projectId, 'news'];
  const news = useQuery({ queryKey: key, queryFn: ({ signal }) => read(api.GET('/news', { signal })) });
  const refresh = () => void client.invalidateQueries({ queryKey: key });
  const close = () => setEdited(null);
  return (
    <Page title={t.news.title} actions={<Button onClick={() => setEdited('new')}>{t.news.create}</Button>}>
      <Text>{t.news.text}</Text>
      <Loaded query={news}>
        {({ items }) => (
          <Listing
            label={t.news.title}
            rows={items}
            id={(item) => item.id}
            empty={
              <NextStep
                title={t.news.emptyTitle}
                text={t.news.emptyText}
                label={t.nextStep.server}
                request={REQUESTS.news}
              />
            }
            columns={[
              { title: t.news.heading, cell: (item) => item.title },
              { title: t.news.state, cell: (item) => <Status of={item.published ? 'published' : 'draft'} /> },
              { title: t.news.when, cell: (item) => <Moment at={item.publishedAt} /> },
              {
                title: t.edit,
                cell: (item) => (
                  <Group gap="xs" wrap="nowrap">
                    <Button size="xs" variant="default" onClick={() => setEdited(item.id)}>
                      {t.news.edit}
                    </Button>
                    <ConfirmButton
                      label={t.remove}
                      title={t.news.removeTitle}
                      action={() => read(api.DELETE('/news/{id}', { params: { path: { id: item.id } } }))}
                      onDone={refresh}
                    >
                      {t.news.remove(item.title)}
                    </ConfirmButton>
                  </Group>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      <EditorModal
        opened={edited !== null}
        onClose={close}
        title={edited === 'new' ? t.news.create : t.news.edit}
        size="lg"
      >
        {edited !== null && (
          <OpenedRecord<Item>
            queryKey={[...key, edited]}
            read={
              edited === 'new'
                ? null
                : (signal) =>
                    readTagged(apiFor(projectId).GET('/news/{id}', { params: { path: { id: edited } }, signal }))
            }
          >
            {(opened) => <Editor opened={opened} onSaved={refresh} onClose={close} />}
          </OpenedRecord>
        )}
      </EditorModal>
    </Page>
  );
}

interface Fields {
  title: string;
  body: string;
  published: boolean;
}

const EMPTY: Fields = { title: '', body: '', published: false };

function Editor({
  opened,
  onSaved,
  onClose,
}: {
  opened: Tagged<Item> | null;
  onSaved: () => void;
  onClose: () => void;
}) {
  const { projectId } = useProject();
  const api = apiFor(projectId);
  const edited = useEdited<Item, Fields>({
    opened,
    empty: EMPTY,
    fieldsOf: ({ title, body, published }) => ({ title, body, published }),
    create: (fields) => readTagged(api.POST('/news', { body: fields })),
    change: ({ id }, fields, base, tag) =>
      readTagged(
        api.PUT('/news/{id}', { params: { path: { id }, header: ifMatch(tag) }, body: changesOf(base, fields) }),
      ),
    reload: ({ id }) => readTagged(api.GET('/news/{id}', { params: { path: { id } } })),
    onSaved(_, { isMounted }) {
      onSaved();
      notify(t.saved);
      if (isMounted) onClose();
    },
  });
  const { stored, draft, saving } = edited;
  const { title, body, published } = draft.value;
  return (
    <Stack>
      <Unsaved when={draft.isDirty} />
      <TextInput
        label={t.news.heading}
        required
        value={title}
        onChange={(event) => draft.set({ title: event.currentTarget.value })}
        error={problemOf(saving.error, 'title')}
        data-autofocus
        autoFocus
      />
      <Textarea
        label={t.news.body}
        autosize
        minRows={5}
        maxRows={16}
        value={body}
        onChange={(event) => draft.set({ body: event.currentTarget.value })}
        error={problemOf(saving.error, 'body')}
      />
      <Paper withBorder p="md" aria-label={t.news.preview}>
        <Title order={3} size="h5">
          {title}
        </Title>
        <Text size="sm" style={{ whiteSpace: 'pre-wrap' }}>
          {body}
        </Text>
      </Paper>
      <Switch
        label={t.news.isPublished}
        checked={published}
        onChange={(event) => draft.set({ published: event.currentTarget.checked })}
      />
      <NotSaved edited={edited} nameField={FIELD_NAMES} />
      <Button onClick={edited.save} loading={saving.isPending} disabled={stored !== null && !draft.isDirty}>
        {t.save}
      </Button>
    </Stack>
  );
}
