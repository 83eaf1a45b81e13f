import { Button, Group, Paper, Stack, Switch, Text, TextInput, Textarea, Title } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { REQUESTS } from '../../app/requests';
import { Ask } from '../../components/ask';
import { useDraft } from '../../components/draft';
import { EditorModal, Unsaved } from '../../components/editor-modal';
import { Failure, Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { Moment } from '../../components/moment';
import { Page } from '../../components/page';
import { Status } from '../../components/status';
import { t } from '../../text';
import { NextStep } from '../access/next-step';

type Item = Schemas['NewsItem'];

export function News() {
  const { projectId } = useProject();
  const client = useQueryClient();
  const [edited, setEdited] = useState<Item | 'new' | null>(null);
  const key = [projectId, 'news'];
  const news = useQuery({ queryKey: key, queryFn: ({ signal }) => read(api.GET('/news', { signal })) });
  const again = () => void client.invalidateQueries({ queryKey: key });
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
            empty={<NextStep title={t.news.emptyTitle} text={t.news.emptyText} label={t.nextStep.server} request={REQUESTS.news} />}
            columns={[
              { title: t.news.heading, cell: (item) => item.title },
              { title: t.news.state, cell: (item) => <Status of={item.published ? 'published' : 'draft'} /> },
              { title: t.news.when, cell: (item) => <Moment at={item.publishedAt} /> },
              {
                title: t.edit,
                cell: (item) => (
                  <Group gap="xs" wrap="nowrap">
                    <Button size="xs" variant="default" onClick={() => setEdited(item)}>
                      {t.news.edit}
                    </Button>
                    <Ask label={t.remove} title={t.news.removeTitle} act={() => read(api.DELETE('/news/{id}', { params: { path: { id: item.id } } }))} onDone={again}>
                      {t.news.remove(item.title)}
                    </Ask>
                  </Group>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      <EditorModal opened={edited !== null} onClose={close} title={edited === 'new' ? t.news.create : t.news.edit} size="lg">
        {edited !== null && (
          <Editor
            item={edited === 'new' ? null : edited}
            onSaved={() => {
              close();
              again();
              notify(t.saved);
            }}
          />
        )}
      </EditorModal>
    </Page>
  );
}

function Editor({ item, onSaved }: { item: Item | null; onSaved: () => void }) {
  const draft = useDraft({ title: item?.title ?? '', body: item?.body ?? '', published: item?.published ?? false });
  const saving = useMutation({
    mutationFn: () =>
      item ? read(api.PUT('/news/{id}', { params: { path: { id: item.id } }, body: draft.value })) : read(api.POST('/news', { body: draft.value })),
    onSuccess: onSaved,
  });
  const { title, body, published } = draft.value;
  return (
    <Stack>
      <Unsaved when={draft.isDirty && !saving.isSuccess} />
      <TextInput label={t.news.heading} required value={title} onChange={(event) => draft.set({ title: event.currentTarget.value })} error={problemOf(saving.error, 'title')} data-autofocus />
      <Textarea label={t.news.body} autosize minRows={5} maxRows={16} value={body} onChange={(event) => draft.set({ body: event.currentTarget.value })} error={problemOf(saving.error, 'body')} />
      <Paper withBorder p="md" aria-label={t.news.preview}>
        <Title order={3} size="h5">
          {title}
        </Title>
        <Text size="sm" style={{ whiteSpace: 'pre-wrap' }}>
          {body}
        </Text>
      </Paper>
      <Switch label={t.news.isPublished} checked={published} onChange={(event) => draft.set({ published: event.currentTarget.checked })} />
      <Failure error={saving.error} />
      <Button onClick={() => saving.mutate()} loading={saving.isPending}>
        {t.save}
      </Button>
    </Stack>
  );
}
