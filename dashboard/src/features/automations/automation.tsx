import { Button, Grid, Stack, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { type Schemas, type Tagged, api, apiFor, ifMatch, read, readTagged } from '../../api/client';
import { problemOf } from '../../api/failure';
import { errorText } from '../../app/field-labels';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { isReadable } from '../../app/typed-json';
import { ConfirmButton } from '../../components/confirm-button';
import { UnsavedChangesGuard } from '../../components/draft';
import { ButtonLink } from '../../components/links';
import { Page, Section } from '../../components/page';
import { NotSaved, RecordScreen, useEdited } from '../../components/record';
import { Status } from '../../components/status';
import { t } from '../../text';
import { automationFieldNames } from './field-names';
import { Flow, useFlowView } from './flow';
import { EMPTY, type Plan, inputOf, planOf } from './plan';
import { AutomationReport } from './report';
import { Simulation } from './simulation';
import { Trigger } from './trigger';
import { LiveTest } from './live-test';

const route = getRouteApi('/p/$projectId/automations/$automationId');
type Automation = Schemas['Automation'];

export function AutomationScreen() {
  const { projectId } = useProject();
  const { automationId } = route.useParams();
  return (
    <RecordScreen<Automation>
      id={automationId}
      title={t.automations.title}
      queryKey={[projectId, 'automation', automationId]}
      read={(signal) =>
        readTagged(apiFor(projectId).GET('/automations/{id}', { params: { path: { id: automationId } }, signal }))
      }
    >
      {(opened, _, onCreated) => <Editor opened={opened} onCreated={onCreated} />}
    </RecordScreen>
  );
}

function Editor({ opened, onCreated }: { opened: Tagged<Automation> | null; onCreated: (id: string) => void }) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const view = useFlowView();
  const api = apiFor(projectId);
  const refreshLists = ({ id }: Automation) => {
    void client.invalidateQueries({ queryKey: [projectId, 'automations'] });
    void client.invalidateQueries({ queryKey: [projectId, 'automation-report', id] });
  };
  const edited = useEdited<Automation, Plan>({
    opened,
    empty: EMPTY,
    fieldsOf: planOf,
    create: (plan) => readTagged(api.POST('/automations', { body: inputOf(plan) as never })),
    change: ({ id }, plan, _, tag) =>
      readTagged(api.PUT('/automations/{id}', { params: { path: { id }, header: ifMatch(tag) }, body: inputOf(plan) })),
    reload: ({ id }) => readTagged(api.GET('/automations/{id}', { params: { path: { id } } })),
    async onSaved({ value: saved }, { isNew, isMounted }) {
      refreshLists(saved);
      notify(t.saved);
      if (!isNew || !isMounted) return;
      onCreated(saved.id);
      await navigate({
        to: '/p/$projectId/automations/$automationId',
        params: { projectId, automationId: saved.id },
        search: true,
        replace: true,
        ignoreBlocker: true,
      });
    },
  });
  const { stored, draft, saving } = edited;
  const { error } = saving;
  const changed = (automation: Tagged<Automation>) => {
    edited.setStored(automation);
    refreshLists(automation.value);
  };
  const flow = (
    <Flow
      plan={draft.value}
      saved={draft.base.steps}
      stored={stored && { id: stored.id, active: stored.active ?? false }}
      onChange={(steps) => draft.set({ steps })}
      error={error}
    />
  );
  return (
    <Page
      title={stored?.name ?? t.automations.newTitle}
      actions={
        <Actions
          stored={stored}
          tag={edited.tag}
          isDirty={draft.isDirty}
          isReadable={isReadable(draft.value)}
          onSave={edited.save}
          isSaving={saving.isPending}
          onChanged={changed}
        />
      }
    >
      <UnsavedChangesGuard when={draft.isDirty} />
      <NotSaved edited={edited} nameField={automationFieldNames(saving.variables?.fields ?? draft.value)} />
      {stored && <LiveTest automation={stored} />}
      <Grid gap="xl">
        <Grid.Col span={{ base: 12, lg: view === 'list' ? 7 : 12 }}>
          <Stack>
            <TextInput
              label={t.automations.name}
              required
              value={draft.value.name}
              onChange={(event) => draft.set({ name: event.currentTarget.value })}
              error={problemOf(error, 'name')}
            />
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

interface ActionsProps {
  stored: Automation | null;
  tag: string | null;
  isDirty: boolean;
  isReadable: boolean;
  isSaving: boolean;
  onSave: () => void;
  onChanged: (automation: Tagged<Automation>) => void;
}

function Actions({ stored, tag, isDirty, isReadable: readable, isSaving, onSave, onChanged }: ActionsProps) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const switching = useMutation({
    mutationFn: ({ id, active }: Automation) =>
      readTagged(
        api.PUT('/automations/{id}', { params: { path: { id }, header: ifMatch(tag) }, body: { active: !active } }),
      ),
    onSuccess(changed) {
      onChanged(changed);
      notify(changed.value.active ? t.automations.activated : t.automations.deactivated);
    },
    onError: (error, automation) => notify(errorText(error, automationFieldNames(planOf(automation))), true),
  });
  // One request at a time: each depends on the entity tag that the one before it returns.
  const isBusy = isSaving || switching.isPending;
  const leave = (isMounted: boolean) => {
    notify(t.automations.removed);
    void client.invalidateQueries({ queryKey: [projectId, 'automations'] });
    if (isMounted) void navigate({ to: '/p/$projectId/automations', params: { projectId }, ignoreBlocker: true });
  };
  return (
    <>
      {stored && (
        <>
          <Status
            of={stored.active ? 'active' : 'inactive'}
            label={stored.active ? t.automations.active : t.automations.inactive}
          />
          <ButtonLink
            variant="default"
            to="/p/$projectId/automations/$automationId/runs"
            params={{ projectId, automationId: stored.id }}
          >
            {t.automations.runs}
          </ButtonLink>
          <ConfirmButton
            label={t.remove}
            title={t.automations.removeTitle}
            size="sm"
            disabled={isBusy}
            action={() =>
              read(api.DELETE('/automations/{id}', { params: { path: { id: stored.id }, header: ifMatch(tag) } }))
            }
            onDone={leave}
          >
            {t.automations.remove(stored.name ?? '')}
          </ConfirmButton>
          <Button
            variant="default"
            disabled={isDirty || isBusy}
            loading={switching.isPending}
            onClick={() => switching.mutate(stored)}
          >
            {stored.active ? t.automations.deactivate : t.automations.activate}
          </Button>
        </>
      )}
      <Button onClick={onSave} loading={isSaving} disabled={(stored !== null && !isDirty) || !readable || isBusy}>
        {t.save}
      </Button>
    </>
  );
}
