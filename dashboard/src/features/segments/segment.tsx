import { Button, Checkbox, Grid, Stack, Text, TextInput, Textarea } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type Schemas, type Tagged, api, apiFor, ifMatch, read, readTagged } from '../../api/client';
import { problemOf } from '../../api/failure';
import { changesOf } from '../../app/draft';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { isReadable } from '../../app/typed-json';
import { namesOf } from '../../app/field-labels';
import { ConfirmButton } from '../../components/confirm-button';
import { UnsavedChangesGuard } from '../../components/draft';
import { Page, Section } from '../../components/page';
import { NotSaved, RecordScreen, useEdited } from '../../components/record';
import { t } from '../../text';
import type { Rule } from '../rules/rule';
import { RuleList } from '../rules/rule-list';
import { Estimate } from './estimate';
import { Explanation } from './explanation';
import { Members, MembershipChanges } from './members';

const FIELD_NAMES = namesOf({ name: t.segments.name, description: t.segments.description, rules: t.segments.rules });

const route = getRouteApi('/p/$projectId/segments/$segmentId');

type Segment = Schemas['Segment'];

interface Fields {
  name: string;
  description: string;
  manual: boolean;
  rules: Rule[];
}

const EMPTY: Fields = { name: '', description: '', manual: false, rules: [] };

function fieldsOf(segment: Segment): Fields {
  return {
    name: segment.name,
    description: segment.description,
    manual: segment.type === 'MANUAL',
    rules: segment.rules as Rule[],
  };
}

export function SegmentScreen() {
  const { projectId } = useProject();
  const { segmentId } = route.useParams();
  return (
    <RecordScreen<Segment>
      id={segmentId}
      title={t.segments.title}
      queryKey={[projectId, 'segment', segmentId]}
      read={(signal) =>
        readTagged(apiFor(projectId).GET('/segments/{id}', { params: { path: { id: segmentId } }, signal }))
      }
      refetchInterval={({ membership }) => (membership?.status === 'filling' ? 2_000 : false)}
    >
      {(opened, current, onCreated) => <Editor opened={opened} current={current} onCreated={onCreated} />}
    </RecordScreen>
  );
}

function Editor({
  opened,
  current,
  onCreated,
}: {
  opened: Tagged<Segment> | null;
  current: Segment | null;
  onCreated: (id: string) => void;
}) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const api = apiFor(projectId);
  const edited = useEdited<Segment, Fields>({
    opened,
    empty: EMPTY,
    fieldsOf,
    create: ({ name, description, manual, rules }) =>
      readTagged(
        api.POST('/segments', { body: { name, description, ...(manual ? {} : { rules: rules as Schemas['Rules'] }) } }),
      ),
    change({ id }, fields, base, tag) {
      const { manual: _, ...changed } = changesOf(base, fields);
      return readTagged(
        api.PUT('/segments/{id}', {
          params: { path: { id }, header: ifMatch(tag) },
          body: changed as Schemas['SegmentInput'],
        }),
      );
    },
    reload: ({ id }) => readTagged(api.GET('/segments/{id}', { params: { path: { id } } })),
    async onSaved(saved, { isNew, isMounted }) {
      const { id } = saved.value;
      notify(t.saved);
      void client.invalidateQueries({ queryKey: [projectId, 'segments'] });
      void client.invalidateQueries({ queryKey: [projectId, 'explain', id] });
      if (!isMounted) return;
      if (!isNew) return client.setQueryData([projectId, 'segment', id], saved);
      onCreated(id);
      await navigate({
        to: '/p/$projectId/segments/$segmentId',
        params: { projectId, segmentId: id },
        replace: true,
        ignoreBlocker: true,
      });
    },
  });
  const { stored, draft, saving } = edited;
  const { value, set } = draft;
  const error = saving.error;
  return (
    <Page
      title={stored ? stored.name : t.segments.newTitle}
      actions={
        <>
          {stored && <Remove segment={stored} tag={edited.tag} />}
          <Button
            onClick={edited.save}
            loading={saving.isPending}
            disabled={(stored !== null && !draft.isDirty) || !isReadable(value)}
          >
            {t.save}
          </Button>
        </>
      }
    >
      <UnsavedChangesGuard when={draft.isDirty} />
      <NotSaved
        edited={edited}
        hide={(field) => field.startsWith('rules[') || field === 'name'}
        nameField={FIELD_NAMES}
      />
      <Grid gap="xl">
        <Grid.Col span={{ base: 12, lg: 8 }}>
          <Stack>
            <TextInput
              label={t.segments.name}
              required
              value={value.name}
              onChange={(event) => set({ name: event.currentTarget.value })}
              error={problemOf(error, 'name')}
            />
            <Textarea
              label={t.segments.description}
              autosize
              minRows={1}
              value={value.description}
              onChange={(event) => set({ description: event.currentTarget.value })}
              error={problemOf(error, 'description')}
            />
            {!stored && (
              <Checkbox
                label={t.segments.manual}
                checked={value.manual}
                onChange={(event) => set({ manual: event.currentTarget.checked })}
              />
            )}
            {!value.manual && (
              <Section title={t.segments.rules}>
                <Text size="sm" c="dimmed" mb="xs">
                  {value.rules.length === 0 ? t.segments.noRules : t.segments.allOf}
                </Text>
                <RuleList rules={value.rules} onChange={(rules) => set({ rules })} error={error} path="rules" />
              </Section>
            )}
            {stored && <Members segment={stored} />}
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 4 }}>
          <Stack>
            {!value.manual && <Estimate rules={value.rules} />}
            {stored && <Membership segment={current ?? stored} />}
            {stored && <CheckUser segmentId={stored.id} />}
            {stored && <MembershipChanges segmentId={stored.id} />}
          </Stack>
        </Grid.Col>
      </Grid>
    </Page>
  );
}

function Membership({ segment: { membership } }: { segment: Segment }) {
  if (!membership) return null;
  const { status, progress, error } = membership;
  const text =
    status === 'filling'
      ? t.segments.calculating(Math.floor(progress * 100))
      : status === 'kept'
        ? t.segments.tracked
        : `${t.segments.failed} ${error ?? ''}`;
  return (
    <Text size="sm" role="status">
      {text}
    </Text>
  );
}

function CheckUser({ segmentId }: { segmentId: string }) {
  const [userId, setUserId] = useState('');
  const [checkedId, setCheckedId] = useState('');
  return (
    <Section title={t.segments.explain}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setCheckedId(userId.trim());
        }}
      >
        <Stack gap="xs" align="flex-start">
          <TextInput
            label={t.segments.explainHint}
            value={userId}
            onChange={(event) => setUserId(event.currentTarget.value)}
            required
          />
          <Button type="submit" size="xs" variant="default">
            {t.segments.check}
          </Button>
        </Stack>
      </form>
      {checkedId && <Explanation segmentId={segmentId} userId={checkedId} />}
    </Section>
  );
}

function Remove({ segment, tag }: { segment: Segment; tag: string | null }) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const leave = (isMounted: boolean) => {
    notify(t.segments.removed);
    void client.invalidateQueries({ queryKey: [projectId, 'segments'] });
    if (isMounted) void navigate({ to: '/p/$projectId/segments', params: { projectId }, ignoreBlocker: true });
  };
  return (
    <ConfirmButton
      label={t.remove}
      title={t.segments.removeTitle}
      size="sm"
      action={() => read(api.DELETE('/segments/{id}', { params: { path: { id: segment.id }, header: ifMatch(tag) } }))}
      onDone={leave}
    >
      {t.segments.remove(segment.name)}
    </ConfirmButton>
  );
}
