import { Alert, Button, Grid, Stack, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { isReadable } from '../../app/typed-json';
import { Ask } from '../../components/ask';
import { KeepChanges, useDraft } from '../../components/draft';
import { Failure, Loaded } from '../../components/failure';
import { ButtonLink } from '../../components/links';
import { Page, Section } from '../../components/page';
import { Status } from '../../components/status';
import { t } from '../../text';
import { Flow, useFlowView } from './flow';
import { EMPTY, type Plan, inputOf, planOf } from './plan';
import { AutomationReport } from './report';
import { Simulation } from './simulation';
import { Trigger } from './trigger';

const route = getRouteApi('/p/$projectId/automations/$automationId');
type Automation = Schemas['Automation'];

/** Somebody else has saved since this editor was opened. */
class ChangedElsewhere extends Error {
  constructor(readonly theirs: Automation) {
    super(t.automations.changedElsewhere(theirs.version));
  }
}

export function AutomationScreen() {
  const { projectId } = useProject();
  const { automationId } = route.useParams();
  const isNew = automationId === 'new';
  const automation = useQuery({
    queryKey: [projectId, 'automation', automationId],
    queryFn: ({ signal }) => read(api.GET('/automations/{id}', { params: { path: { id: automationId } }, signal })),
    enabled: !isNew,
    staleTime: Infinity,
    gcTime: 0,
  });
  if (isNew) return <Editor key="new" opened={null} />;
  if (!automation.data) return <Page title={t.automations.title}><Loaded query={automation}>{() => null}</Loaded></Page>;
  return <Editor key={automationId} opened={automation.data} />;
}

function Editor({ opened }: { opened: Automation | null }) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [stored, setStored] = useState(opened);
  const view = useFlowView();
  const draft = useDraft(opened ? planOf(opened) : EMPTY);
  const keep = (saved: Automation) => {
    setStored(saved);
    // A new one is read by the screen that it is opened on next.
    if (stored) client.setQueryData([projectId, 'automation', saved.id], saved);
    void client.invalidateQueries({ queryKey: [projectId, 'automations'] });
    void client.invalidateQueries({ queryKey: [projectId, 'automation-report', saved.id] });
  };
  const saving = useMutation({
    async mutationFn(plan: Plan) {
      const body = inputOf(plan);
      if (!stored) return read(api.POST('/automations', { body: body as never }));
      await unchanged(stored);
      return read(api.PUT('/automations/{id}', { params: { path: { id: stored.id } }, body }));
    },
    async onSuccess(saved, sent) {
      draft.settle(sent, planOf(saved));
      keep(saved);
      notify(t.saved);
      if (!stored) await navigate({ to: '/p/$projectId/automations/$automationId', params: { projectId, automationId: saved.id }, replace: true, ignoreBlocker: true });
    },
  });
  const load = (theirs: Automation) => {
    keep(theirs);
    draft.restart(planOf(theirs));
    saving.reset();
  };
  const error = saving.error;
  const flow = <Flow plan={draft.value} saved={draft.base.steps} stored={stored && { id: stored.id, active: stored.active ?? false }} onChange={(steps) => draft.set({ steps })} error={error} />;
  return (
    <Page title={stored?.name ?? t.automations.newTitle} actions={<Actions stored={stored} isDirty={draft.isDirty} isReadable={isReadable(draft.value)} onSave={() => saving.mutate(draft.value)} isSaving={saving.isPending} onChanged={keep} />}>
      <KeepChanges when={draft.isDirty} />
      {error instanceof ChangedElsewhere ? (
        <Alert color="yellow" variant="outline" role="alert">
          <Stack align="flex-start" gap="xs">
            {error.message}
            <Button size="xs" variant="default" onClick={() => load(error.theirs)}>
              {t.automations.loadTheirs}
            </Button>
          </Stack>
        </Alert>
      ) : (
        <Failure error={error} />
      )}
      <Grid gap="xl">
        <Grid.Col span={{ base: 12, lg: view === 'list' ? 7 : 12 }}>
          <Stack>
            <TextInput label={t.automations.name} required value={draft.value.name} onChange={(event) => draft.set({ name: event.currentTarget.value })} error={problemOf(error, 'name')} />
            <Section title={t.automations.settings}>
              <Trigger plan={draft.value} set={draft.set} error={error} />
            </Section>
            {view === 'list' && flow}
          </Stack>
        </Grid.Col>
        {view === 'canvas' && <Grid.Col span={12}>{flow}</Grid.Col>}
        <Grid.Col span={{ base: 12, lg: view === 'list' ? 5 : 12 }}>
          {stored && (
            <Stack gap="xl">
              <AutomationReport automation={stored} />
              <Simulation automationId={stored.id} />
            </Stack>
          )}
        </Grid.Col>
      </Grid>
    </Page>
  );
}

/** Fails where somebody else has saved since: nothing of theirs is overwritten. */
async function unchanged(stored: Automation): Promise<void> {
  const now = await read(api.GET('/automations/{id}', { params: { path: { id: stored.id } } }));
  if (now.updatedAt !== stored.updatedAt) throw new ChangedElsewhere(now);
}

interface ActionsProps {
  stored: Automation | null;
  isDirty: boolean;
  isReadable: boolean;
  isSaving: boolean;
  onSave: () => void;
  onChanged: (automation: Automation) => void;
}

function Actions({ stored, isDirty, isReadable: readable, isSaving, onSave, onChanged }: ActionsProps) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const switching = useMutation({
    async mutationFn(automation: Automation) {
      await unchanged(automation);
      return read(api.PUT('/automations/{id}', { params: { path: { id: automation.id } }, body: { active: !automation.active } }));
    },
    onSuccess(changed) {
      onChanged(changed);
      notify(changed.active ? t.automations.activated : t.automations.deactivated);
    },
    onError: (error) => notify(error.message, true),
  });
  const leave = () => {
    notify(t.automations.removed);
    void client.invalidateQueries({ queryKey: [projectId, 'automations'] });
    void navigate({ to: '/p/$projectId/automations', params: { projectId }, ignoreBlocker: true });
  };
  return (
    <>
      {stored && (
        <>
          <Status of={stored.active ? 'active' : 'inactive'} label={stored.active ? t.automations.active : t.automations.inactive} />
          <ButtonLink variant="default" to="/p/$projectId/automations/$automationId/runs" params={{ projectId, automationId: stored.id }}>
            {t.automations.runs}
          </ButtonLink>
          <Ask label={t.remove} title={t.automations.removeTitle} size="sm" act={() => read(api.DELETE('/automations/{id}', { params: { path: { id: stored.id } } }))} onDone={leave}>
            {t.automations.remove(stored.name ?? '')}
          </Ask>
          <Button variant="default" disabled={isDirty} loading={switching.isPending} onClick={() => switching.mutate(stored)}>
            {stored.active ? t.automations.deactivate : t.automations.activate}
          </Button>
        </>
      )}
      <Button onClick={onSave} loading={isSaving} disabled={(stored !== null && !isDirty) || !readable}>
        {t.save}
      </Button>
    </>
  );
}
