import { Button, Checkbox, Group, NumberInput, Stack, Text, TextInput } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type Schemas, type Tagged, api, ifMatch, read, readTagged } from '../../api/client';
import { problemOf } from '../../api/failure';
import { changesOf } from '../../app/draft';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { namesOf } from '../../app/field-labels';
import { ConfirmButton } from '../../components/confirm-button';
import { UnsavedChangesGuard } from '../../components/draft';
import { Loaded } from '../../components/failure';
import { Page, Section } from '../../components/page';
import { NotSaved, useEdited } from '../../components/record';
import { findSession } from '../../session/session';
import { t } from '../../text';
import { Secrets } from './secrets';

const FIELD_NAMES = namesOf({
  name: t.settings.name,
  timezone: t.settings.timezone,
  rateLimit: t.settings.rateLimit,
  retentionDays: t.settings.retention,
  tracking: t.settings.tracking,
  identityVerification: t.settings.identity,
});

type Project = Schemas['Project'];

function fieldsOf({ name, timezone, rateLimit, retentionDays, tracking, identityVerification }: Project) {
  return { name, timezone, rateLimit, retentionDays, tracking, identityVerification };
}

export function Settings() {
  const { projectId, isAdmin } = useProject();
  const project = useQuery({
    queryKey: [projectId, 'project'],
    queryFn: ({ signal }) => readTagged(api.GET('/projects/{id}', { params: { path: { id: projectId } }, signal })),
    gcTime: 0,
  });
  return (
    <Page title={t.settings.title}>
      {!isAdmin && <Text>{t.adminOnly}</Text>}
      <Loaded query={project}>
        {(found) => (
          <Stack gap="xl">
            <Form opened={found} />
            {isAdmin && <Secrets project={found.value} />}
            {isAdmin && <Remove project={found.value} />}
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

function Form({ opened }: { opened: Tagged<Project> }) {
  const { projectId, isAdmin } = useProject();
  const client = useQueryClient();
  const path = { id: projectId };
  const edited = useEdited({
    opened,
    empty: fieldsOf(opened.value),
    fieldsOf,
    // Sends only fields changed here, so that other fields changed by others are kept even when overwriting.
    change: (_, now, base, tag) =>
      readTagged(api.PUT('/projects/{id}', { params: { path, header: ifMatch(tag) }, body: changesOf(base, now) })),
    reload: () => readTagged(api.GET('/projects/{id}', { params: { path } })),
    async onSaved(saved) {
      client.setQueryData([projectId, 'project'], saved);
      notify(t.saved);
      // The project list in the header shows the name.
      await findSession();
    },
  });
  const { draft, saving } = edited;
  const { value, set } = draft;
  const of = (field: keyof typeof value) => ({ disabled: !isAdmin, error: problemOf(saving.error, field) });
  return (
    <Stack maw={520}>
      <UnsavedChangesGuard when={draft.isDirty} />
      <TextInput label={t.settings.id} value={projectId} readOnly />
      <TextInput
        label={t.settings.name}
        required
        {...of('name')}
        value={value.name}
        onChange={(event) => set({ name: event.currentTarget.value })}
      />
      <TextInput
        label={t.settings.timezone}
        description={t.settings.timezoneHint}
        {...of('timezone')}
        value={value.timezone}
        onChange={(event) => set({ timezone: event.currentTarget.value })}
      />
      <NumberInput
        label={t.settings.rateLimit}
        {...of('rateLimit')}
        value={value.rateLimit}
        onChange={(rateLimit) => set({ rateLimit: Number(rateLimit) })}
      />
      <NumberInput
        label={t.settings.retention}
        description={t.settings.retentionHint}
        {...of('retentionDays')}
        value={value.retentionDays}
        onChange={(retentionDays) => set({ retentionDays: Number(retentionDays) })}
      />
      <Checkbox
        label={t.settings.tracking}
        {...of('tracking')}
        checked={value.tracking}
        onChange={(event) => set({ tracking: event.currentTarget.checked })}
      />
      <Checkbox
        label={t.settings.identity}
        description={t.settings.identityHint}
        {...of('identityVerification')}
        checked={value.identityVerification}
        onChange={(event) => set({ identityVerification: event.currentTarget.checked })}
      />
      <NotSaved edited={edited} nameField={FIELD_NAMES} />
      {isAdmin && (
        <Group>
          <Button onClick={edited.save} loading={saving.isPending} disabled={!draft.isDirty}>
            {t.save}
          </Button>
        </Group>
      )}
    </Stack>
  );
}

function Remove({ project }: { project: Project }) {
  const remove = () =>
    read(api.DELETE('/projects/{id}', { params: { path: { id: project.id } }, body: { name: project.name } }));
  return (
    <Section title={t.settings.danger}>
      {/* Loading a new page clears the project's data from memory. */}
      <ConfirmButton
        label={t.settings.remove}
        title={t.settings.removeTitle}
        confirmationText={project.name}
        size="sm"
        action={remove}
        onDone={(isMounted) => void (isMounted ? location.assign('/') : findSession())}
      >
        {t.settings.dangerText(project.name)}
      </ConfirmButton>
    </Section>
  );
}
