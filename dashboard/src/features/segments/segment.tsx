import { Button, Checkbox, Grid, Stack, Text, TextInput, Textarea } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type Schemas, api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { changesOf } from '../../app/draft';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { isReadable } from '../../app/typed-json';
import { Ask } from '../../components/ask';
import { KeepChanges, useDraft } from '../../components/draft';
import { Failure, Loaded } from '../../components/failure';
import { Page, Section } from '../../components/page';
import { t } from '../../text';
import type { Rule } from '../rules/rule';
import { RuleList } from '../rules/rule-list';
import { Estimate } from './estimate';
import { Explained } from './explained';
import { Members, Movements } from './members';

const route = getRouteApi('/p/$projectId/segments/$segmentId');

interface Fields {
  name: string;
  description: string;
  manual: boolean;
  rules: Rule[];
}

const EMPTY: Fields = { name: '', description: '', manual: false, rules: [] };

function fieldsOf(segment: Schemas['Segment']): Fields {
  return { name: segment.name, description: segment.description, manual: segment.type === 'MANUAL', rules: segment.rules as Rule[] };
}

export function SegmentScreen() {
  const { projectId } = useProject();
  const { segmentId } = route.useParams();
  const isNew = segmentId === 'new';
  const segment = useQuery({
    queryKey: [projectId, 'segment', segmentId],
    queryFn: ({ signal }) => read(api.GET('/segments/{id}', { params: { path: { id: segmentId } }, signal })),
    enabled: !isNew,
    // What is being edited begins from what is stored now, and stays as it was when it was opened.
    staleTime: Infinity,
    gcTime: 0,
    refetchInterval: (query) => (query.state.data?.membership?.status === 'filling' ? 2_000 : false),
  });
  if (isNew) return <Editor key="new" stored={null} />;
  if (!segment.data) return <Page title={t.segments.title}><Loaded query={segment}>{() => null}</Loaded></Page>;
  return <Editor key={segmentId} stored={segment.data} />;
}

function Editor({ stored }: { stored: Schemas['Segment'] | null }) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const draft = useDraft(stored ? fieldsOf(stored) : EMPTY);
  const { value, set } = draft;
  const saving = useMutation({
    mutationFn(fields: Fields) {
      const { name, description, manual, rules } = fields;
      const body = { name, description, ...(manual ? {} : { rules: rules as Schemas['Rules'] }) };
      if (!stored) return read(api.POST('/segments', { body }));
      const { manual: _, ...changed } = changesOf(draft.base, fields);
      return read(api.PUT('/segments/{id}', { params: { path: { id: stored.id } }, body: changed as Partial<typeof body> }));
    },
    async onSuccess(saved, sent) {
      draft.settle(sent, fieldsOf(saved));
      notify(t.saved);
      if (stored) client.setQueryData([projectId, 'segment', saved.id], saved);
      void client.invalidateQueries({ queryKey: [projectId, 'segments'] });
      void client.invalidateQueries({ queryKey: [projectId, 'explain', saved.id] });
      if (!stored) await navigate({ to: '/p/$projectId/segments/$segmentId', params: { projectId, segmentId: saved.id }, replace: true, ignoreBlocker: true });
    },
  });
  const error = saving.error;
  return (
    <Page
      title={stored ? stored.name : t.segments.newTitle}
      actions={
        <>
          {stored && <Remove segment={stored} />}
          <Button onClick={() => saving.mutate(value)} loading={saving.isPending} disabled={(stored !== null && !draft.isDirty) || !isReadable(value)}>
            {t.save}
          </Button>
        </>
      }
    >
      <KeepChanges when={draft.isDirty} />
      <Failure error={error} hide={(field) => field.startsWith('rules[') || field === 'name'} />
      <Grid gap="xl">
        <Grid.Col span={{ base: 12, lg: 8 }}>
          <Stack>
            <TextInput label={t.segments.name} required value={value.name} onChange={(event) => set({ name: event.currentTarget.value })} error={problemOf(error, 'name')} />
            <Textarea label={t.segments.description} autosize minRows={1} value={value.description} onChange={(event) => set({ description: event.currentTarget.value })} error={problemOf(error, 'description')} />
            {!stored && <Checkbox label={t.segments.manual} checked={value.manual} onChange={(event) => set({ manual: event.currentTarget.checked })} />}
            {!value.manual && (
              <Section title={t.segments.rules}>
                <Text size="sm" c="dimmed" mb="xs">
                  {value.rules.length === 0 ? t.segments.noRules : t.segments.allOf}
                </Text>
                <RuleList rules={value.rules} onChange={(rules) => set({ rules })} error={error} place="rules" />
              </Section>
            )}
            {stored && <Members segment={stored} />}
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 4 }}>
          <Stack>
            {!value.manual && <Estimate rules={value.rules} />}
            {stored && <Membership segment={stored} />}
            {stored && <TestPerson segmentId={stored.id} />}
            {stored && <Movements segmentId={stored.id} />}
          </Stack>
        </Grid.Col>
      </Grid>
    </Page>
  );
}

function Membership({ segment: { membership } }: { segment: Schemas['Segment'] }) {
  if (!membership) return null;
  const { status, progress, error } = membership;
  const text = status === 'filling' ? t.segments.filling(Math.floor(progress * 100)) : status === 'kept' ? t.segments.kept : `${t.segments.failed} ${error ?? ''}`;
  return (
    <Text size="sm" role="status">
      {text}
    </Text>
  );
}

function TestPerson({ segmentId }: { segmentId: string }) {
  const [person, setPerson] = useState('');
  const [asked, setAsked] = useState('');
  return (
    <Section title={t.segments.explain}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setAsked(person.trim());
        }}
      >
        <Stack gap="xs" align="flex-start">
          <TextInput label={t.segments.explainHint} value={person} onChange={(event) => setPerson(event.currentTarget.value)} required />
          <Button type="submit" size="xs" variant="default">
            {t.segments.test}
          </Button>
        </Stack>
      </form>
      {asked && <Explained segmentId={segmentId} person={asked} />}
    </Section>
  );
}

function Remove({ segment }: { segment: Schemas['Segment'] }) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const leave = () => {
    notify(t.segments.removed);
    void client.invalidateQueries({ queryKey: [projectId, 'segments'] });
    void navigate({ to: '/p/$projectId/segments', params: { projectId }, ignoreBlocker: true });
  };
  return (
    <Ask label={t.remove} title={t.segments.removeTitle} size="sm" act={() => read(api.DELETE('/segments/{id}', { params: { path: { id: segment.id } } }))} onDone={leave}>
      {t.segments.remove(segment.name)}
    </Ask>
  );
}
