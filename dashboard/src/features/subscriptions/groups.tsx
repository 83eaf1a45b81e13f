import { Button, Checkbox, Group, Stack, Text, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type Schemas, type Tagged, api, apiFor, ifMatch, read, readTagged } from '../../api/client';
import { problemOf } from '../../api/failure';
import { changesOf } from '../../app/draft';
import { useProject } from '../../app/project';
import { REQUESTS } from '../../app/requests';
import { namesOf } from '../../app/field-labels';
import { ConfirmButton } from '../../components/confirm-button';
import { EditorModal, Unsaved } from '../../components/editor-modal';
import { Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { Page } from '../../components/page';
import { NotSaved, OpenedRecord, useEdited } from '../../components/record';
import { t } from '../../text';
import { NextStep } from '../access/next-step';
import { useGroups } from '../campaigns/wizard-audience';

const FIELD_NAMES = namesOf({
  name: t.groups.name,
  description: t.groups.description,
  defaultSubscribed: t.groups.isDefault,
  public: t.groups.isPublic,
});

type SubscriptionGroup = Schemas['SubscriptionGroup'];

export function SubscriptionGroups() {
  const { projectId } = useProject();
  const client = useQueryClient();
  const [edited, setEdited] = useState<string | null>(null);
  const groups = useGroups();
  const refresh = () => void client.invalidateQueries({ queryKey: [projectId, 'subscription-groups'] });
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
            empty={
              <NextStep
                title={t.groups.emptyTitle}
                text={t.groups.emptyText}
                label={t.nextStep.server}
                request={REQUESTS.group}
              />
            }
            columns={[
              { title: t.groups.name, cell: (group) => group.name },
              { title: t.groups.description, cell: (group) => group.description || '–' },
              { title: t.groups.isDefault, cell: (group) => (group.defaultSubscribed ? t.yes : t.no) },
              { title: t.groups.isPublic, cell: (group) => (group.public ? t.yes : t.no) },
              {
                title: t.edit,
                cell: (group) => (
                  <Group gap="xs" wrap="nowrap">
                    <Button size="xs" variant="default" onClick={() => setEdited(group.id)}>
                      {t.edit}
                    </Button>
                    <ConfirmButton
                      label={t.remove}
                      title={t.groups.removeTitle}
                      action={() =>
                        read(api.DELETE('/subscription-groups/{id}', { params: { path: { id: group.id } } }))
                      }
                      onDone={refresh}
                    >
                      {t.groups.remove(group.name)}
                    </ConfirmButton>
                  </Group>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      <EditorModal opened={edited !== null} onClose={close} title={edited === 'new' ? t.groups.create : t.groups.edit}>
        {edited !== null && (
          <OpenedRecord<SubscriptionGroup>
            queryKey={[projectId, 'subscription-groups', edited]}
            read={
              edited === 'new'
                ? null
                : (signal) =>
                    readTagged(
                      apiFor(projectId).GET('/subscription-groups/{id}', { params: { path: { id: edited } }, signal }),
                    )
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
  name: string;
  description: string;
  defaultSubscribed: boolean;
  public: boolean;
}

const EMPTY: Fields = { name: '', description: '', defaultSubscribed: true, public: true };

function fieldsOf(group: SubscriptionGroup): Fields {
  return {
    name: group.name,
    description: group.description,
    defaultSubscribed: group.defaultSubscribed,
    public: group.public,
  };
}

function Editor({
  opened,
  onSaved,
  onClose,
}: {
  opened: Tagged<SubscriptionGroup> | null;
  onSaved: () => void;
  onClose: () => void;
}) {
  const { projectId } = useProject();
  const api = apiFor(projectId);
  const edited = useEdited<SubscriptionGroup, Fields>({
    opened,
    empty: EMPTY,
    fieldsOf,
    create: (fields) => readTagged(api.POST('/subscription-groups', { body: fields })),
    change: ({ id }, fields, base, tag) =>
      readTagged(
        api.PUT('/subscription-groups/{id}', {
          params: { path: { id }, header: ifMatch(tag) },
          body: changesOf(base, fields),
        }),
      ),
    reload: ({ id }) => readTagged(api.GET('/subscription-groups/{id}', { params: { path: { id } } })),
    onSaved(_, { isMounted }) {
      onSaved();
      if (isMounted) onClose();
    },
  });
  const { stored, draft, saving } = edited;
  const { value, set } = draft;
  return (
    <Stack>
      <Unsaved when={draft.isDirty} />
      <TextInput
        label={t.groups.name}
        required
        value={value.name}
        onChange={(event) => set({ name: event.currentTarget.value })}
        error={problemOf(saving.error, 'name')}
        data-autofocus
        autoFocus
      />
      <TextInput
        label={t.groups.description}
        description={t.groups.descriptionHint}
        value={value.description}
        onChange={(event) => set({ description: event.currentTarget.value })}
        error={problemOf(saving.error, 'description')}
      />
      <Checkbox
        label={t.groups.isDefault}
        checked={value.defaultSubscribed}
        onChange={(event) => set({ defaultSubscribed: event.currentTarget.checked })}
      />
      <Checkbox
        label={t.groups.isPublic}
        checked={value.public}
        onChange={(event) => set({ public: event.currentTarget.checked })}
      />
      <NotSaved edited={edited} nameField={FIELD_NAMES} />
      <Button loading={saving.isPending} disabled={stored !== null && !draft.isDirty} onClick={edited.save}>
        {t.save}
      </Button>
    </Stack>
  );
}
