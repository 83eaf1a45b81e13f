import { Button, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { api, apiFor, read, setCurrentProject } from '../../api/client';
import { problemOf } from '../../api/failure';
import { firstEvent } from '../../app/requests';
import { cacheKey } from '../../app/key-cache';
import { namesOf } from '../../app/field-labels';
import { Failure } from '../../components/failure';
import { ButtonLink } from '../../components/links';
import { Page, Section } from '../../components/page';
import { Snippet } from '../../components/snippet';
import { addProject } from '../../session/session';
import { useSession } from '../../session/use-session';
import { t } from '../../text';
import { keyOf } from '../access/key';

const FIELD_NAMES = namesOf({ name: t.start.name, timezone: t.start.timezone });

interface Created {
  id: string;
  name: string;
}

export function NewProject() {
  const { projects } = useSession();
  const [created, setCreated] = useState<Created | null>(null);
  const creating = useMutation({
    mutationFn: (input: { name: string; timezone: string }) => read(api.POST('/projects', { body: input })),
    onSuccess({ id, name }) {
      addProject({ id, name, role: 'ADMIN' });
      setCurrentProject(id);
      setCreated({ id, name });
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    creating.mutate({ name: String(form.get('name')), timezone: String(form.get('timezone')) });
  };
  if (created) return <FirstRun project={created} />;
  return (
    <Page title={t.start.title}>
      <Text>{projects.length === 0 ? t.start.none : t.start.text}</Text>
      <form onSubmit={submit}>
        <Stack>
          <TextInput
            name="name"
            label={t.start.name}
            required
            maxLength={200}
            autoFocus
            error={problemOf(creating.error, 'name')}
          />
          <TextInput
            name="timezone"
            label={t.start.timezone}
            description={t.start.timezoneHint}
            defaultValue={Intl.DateTimeFormat().resolvedOptions().timeZone}
            required
            error={problemOf(creating.error, 'timezone')}
          />
          <Failure error={creating.error} nameField={FIELD_NAMES} />
          <Button type="submit" loading={creating.isPending}>
            {t.start.submit}
          </Button>
        </Stack>
      </form>
    </Page>
  );
}

const KEY_TYPES = ['public', 'secret'] as const;
type KeyType = (typeof KEY_TYPES)[number];
const KEY_NAMES: Record<KeyType, string> = { public: t.start.publicKey, secret: t.start.secretKey };

/** First screen of a new project: API keys, a sample request, and whether its event has arrived. */
function FirstRun({ project }: { project: Created }) {
  const [keys, setKeys] = useState<Partial<Record<KeyType, string>>>({});
  const creating = useMutation({
    async mutationFn() {
      // Sequentially, storing each key at once: if the second request fails, the first key is not lost.
      for (const type of KEY_TYPES.filter((each) => keys[each] === undefined)) {
        const key = keyOf(await read(apiFor(project.id).POST('/api-keys', { body: { name: KEY_NAMES[type], type } })));
        setKeys((before) => ({ ...before, [type]: key }));
        if (type === 'public') cacheKey(project.id, key);
      }
    },
  });
  const arrived = useQuery({
    queryKey: [project.id, 'first-event'],
    queryFn: ({ signal }) => read(apiFor(project.id).GET('/events', { params: { query: { limit: 1 } }, signal })),
    enabled: keys.public !== undefined,
    refetchInterval: (query) => (query.state.data?.events.length ? false : 1_500),
  });
  const first = arrived.data?.events[0];
  return (
    <Page
      title={project.name}
      actions={
        <ButtonLink to="/p/$projectId/overview" params={{ projectId: project.id }}>
          {t.start.go}
        </ButtonLink>
      }
    >
      <Section title={t.start.keys}>
        <Stack>
          <Text size="sm">{t.start.keysText}</Text>
          {KEY_TYPES.map((type) => keys[type] && <Snippet key={type} label={KEY_NAMES[type]} code={keys[type]} />)}
          {KEY_TYPES.some((type) => keys[type] === undefined) && (
            <Button onClick={() => creating.mutate()} loading={creating.isPending}>
              {t.start.createKeys}
            </Button>
          )}
          <Failure error={creating.error} />
        </Stack>
      </Section>
      {keys.public && (
        <Section title={t.start.first}>
          <Snippet label={t.start.firstText} code={firstEvent(location.origin, keys.public)} />
          <Text mt="md" role="status">
            {first ? t.start.arrived(first.eventName) : t.start.waiting}
          </Text>
          <Failure error={arrived.error} />
        </Section>
      )}
    </Page>
  );
}
