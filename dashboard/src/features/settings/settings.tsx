import { Button, Checkbox, Group, NumberInput, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type Schemas, api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { changesOf } from '../../app/draft';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { Ask } from '../../components/ask';
import { KeepChanges, useDraft } from '../../components/draft';
import { Failure, Loaded } from '../../components/failure';
import { Page, Section } from '../../components/page';
import { findSession } from '../../session/session';
import { t } from '../../text';
import { Secrets } from './secrets';

type Project = Schemas['Project'];

function fieldsOf({ name, timezone, rateLimit, retentionDays, tracking, identityVerification }: Project) {
  return { name, timezone, rateLimit, retentionDays, tracking, identityVerification };
}

export function Settings() {
  const { projectId, isAdmin } = useProject();
  const project = useQuery({ queryKey: [projectId, 'project'], queryFn: ({ signal }) => read(api.GET('/projects/{id}', { params: { path: { id: projectId } }, signal })), gcTime: 0 });
  return (
    <Page title={t.settings.title}>
      {!isAdmin && <Text>{t.adminOnly}</Text>}
      <Loaded query={project}>
        {(found) => (
          <Stack gap="xl">
            <Form project={found} />
            {isAdmin && <Secrets project={found} />}
            {isAdmin && <Remove project={found} />}
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

function Form({ project }: { project: Project }) {
  const { isAdmin } = useProject();
  const client = useQueryClient();
  const draft = useDraft(fieldsOf(project));
  const { value, set } = draft;
  const saving = useMutation({
    // Only what was changed here: what others have changed since stays.
    mutationFn: (now: typeof value) => read(api.PUT('/projects/{id}', { params: { path: { id: project.id } }, body: changesOf(draft.base, now) })),
    async onSuccess(saved, sent) {
      draft.settle(sent, fieldsOf(saved));
      client.setQueryData([project.id, 'project'], saved);
      notify(t.saved);
      // The name also stands in the list of projects.
      await findSession();
    },
  });
  const of = (field: keyof typeof value) => ({ disabled: !isAdmin, error: problemOf(saving.error, field) });
  return (
    <Stack maw={520}>
      <KeepChanges when={draft.isDirty} />
      <TextInput label={t.settings.id} value={project.id} readOnly />
      <TextInput label={t.settings.name} required {...of('name')} value={value.name} onChange={(event) => set({ name: event.currentTarget.value })} />
      <TextInput label={t.settings.timezone} description={t.settings.timezoneHint} {...of('timezone')} value={value.timezone} onChange={(event) => set({ timezone: event.currentTarget.value })} />
      <NumberInput label={t.settings.rateLimit} {...of('rateLimit')} value={value.rateLimit} onChange={(rateLimit) => set({ rateLimit: Number(rateLimit) })} />
      <NumberInput label={t.settings.retention} description={t.settings.retentionHint} {...of('retentionDays')} value={value.retentionDays} onChange={(retentionDays) => set({ retentionDays: Number(retentionDays) })} />
      <Checkbox label={t.settings.tracking} {...of('tracking')} checked={value.tracking} onChange={(event) => set({ tracking: event.currentTarget.checked })} />
      <Checkbox label={t.settings.identity} description={t.settings.identityHint} {...of('identityVerification')} checked={value.identityVerification} onChange={(event) => set({ identityVerification: event.currentTarget.checked })} />
      <Failure error={saving.error} />
      {isAdmin && (
        <Group>
          <Button onClick={() => saving.mutate(value)} loading={saving.isPending} disabled={!draft.isDirty}>
            {t.save}
          </Button>
        </Group>
      )}
    </Stack>
  );
}

function Remove({ project }: { project: Project }) {
  const remove = () => read(api.DELETE('/projects/{id}', { params: { path: { id: project.id } }, body: { name: project.name } }));
  return (
    <Section title={t.settings.danger}>
      {/* A new page: nothing of the project stays in memory. */}
      <Ask label={t.settings.remove} title={t.settings.removeTitle} typed={project.name} size="sm" act={remove} onDone={() => location.assign('/')}>
        {t.settings.dangerText(project.name)}
      </Ask>
    </Section>
  );
}
