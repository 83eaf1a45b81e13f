import { Button, Checkbox, Group, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { useProject } from '../../app/project';
import { REQUESTS } from '../../app/requests';
import { Ask } from '../../components/ask';
import { useDraft } from '../../components/draft';
import { EditorModal, Unsaved } from '../../components/editor-modal';
import { Failure, Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { Page } from '../../components/page';
import { t } from '../../text';
import { NextStep } from '../access/next-step';
import { useGroups } from '../campaigns/wizard-audience';

type SubscriptionGroup = Schemas['SubscriptionGroup'];

export function SubscriptionGroups() {
  const { projectId } = useProject();
  const client = useQueryClient();
  const [edited, setEdited] = useState<SubscriptionGroup | 'new' | null>(null);
  const groups = useGroups();
  const again = () => void client.invalidateQueries({ queryKey: [projectId, 'subscription-groups'] });
  const close = () => setEdited(null);
  return (
    <Page title={t.groups.title} actions={<Button onClick={() => setEdited('new')}>{t.groups.create}</Button>}>
      <Text>{t.groups.text}</Text>
      <Loaded query={groups}>
        {(found) => (
          <Listing
            label={t.groups.title}
            rows={found.groups}
            id={(group) => group.id}
            empty={<NextStep title={t.groups.emptyTitle} text={t.groups.emptyText} label={t.nextStep.server} request={REQUESTS.group} />}
            columns={[
              { title: t.groups.name, cell: (group) => group.name },
              { title: t.groups.description, cell: (group) => group.description || '–' },
              { title: t.groups.isDefault, cell: (group) => (group.defaultSubscribed ? t.yes : t.no) },
              { title: t.groups.isPublic, cell: (group) => (group.public ? t.yes : t.no) },
              {
                title: t.edit,
                cell: (group) => (
                  <Group gap="xs" wrap="nowrap">
                    <Button size="xs" variant="default" onClick={() => setEdited(group)}>
                      {t.edit}
                    </Button>
                    <Ask label={t.remove} title={t.groups.removeTitle} act={() => read(api.DELETE('/subscription-groups/{id}', { params: { path: { id: group.id } } }))} onDone={again}>
                      {t.groups.remove(group.name)}
                    </Ask>
                  </Group>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      <EditorModal opened={edited !== null} onClose={close} title={edited === 'new' ? t.groups.create : t.groups.edit}>
        {edited !== null && (
          <Editor
            group={edited === 'new' ? null : edited}
            onSaved={() => {
              close();
              again();
            }}
          />
        )}
      </EditorModal>
    </Page>
  );
}

function Editor({ group, onSaved }: { group: SubscriptionGroup | null; onSaved: () => void }) {
  const draft = useDraft({ name: group?.name ?? '', description: group?.description ?? '', defaultSubscribed: group?.defaultSubscribed ?? true, public: group?.public ?? true });
  const { value, set } = draft;
  const saving = useMutation({
    mutationFn: () => (group ? read(api.PUT('/subscription-groups/{id}', { params: { path: { id: group.id } }, body: value })) : read(api.POST('/subscription-groups', { body: value }))),
    onSuccess: onSaved,
  });
  return (
    <Stack>
      <Unsaved when={draft.isDirty && !saving.isSuccess} />
      <TextInput label={t.groups.name} required value={value.name} onChange={(event) => set({ name: event.currentTarget.value })} error={problemOf(saving.error, 'name')} data-autofocus />
      <TextInput label={t.groups.description} description={t.groups.descriptionHint} value={value.description} onChange={(event) => set({ description: event.currentTarget.value })} error={problemOf(saving.error, 'description')} />
      <Checkbox label={t.groups.isDefault} checked={value.defaultSubscribed} onChange={(event) => set({ defaultSubscribed: event.currentTarget.checked })} />
      <Checkbox label={t.groups.isPublic} checked={value.public} onChange={(event) => set({ public: event.currentTarget.checked })} />
      <Failure error={saving.error} />
      <Button loading={saving.isPending} onClick={() => saving.mutate()}>
        {t.save}
      </Button>
    </Stack>
  );
}
