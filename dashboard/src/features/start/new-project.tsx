import { Button, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { api, apiOf, read, workOn } from '../../api/client';
import { problemOf } from '../../api/failure';
import { firstEvent } from '../../app/requests';
import { rememberKey } from '../../app/known-keys';
import { Failure } from '../../components/failure';
import { ButtonLink } from '../../components/links';
import { Page, Section } from '../../components/page';
import { Snippet } from '../../components/snippet';
import { joined } from '../../session/session';
import { useSession } from '../../session/use-session';
import { t } from '../../text';
import { keyOf } from '../access/key';

interface Made {
  id: string;
  name: string;
}

export function NewProject() {
  const { projects } = useSession();
  const [made, setMade] = useState<Made | null>(null);
  const making = useMutation({
    mutationFn: (input: { name: string; timezone: string }) => read(api.POST('/projects', { body: input })),
    onSuccess({ id, name }) {
      joined({ id, name, role: 'ADMIN' });
      workOn(id);
      setMade({ id, name });
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    making.mutate({ name: String(form.get('name')), timezone: String(form.get('timezone')) });
  };
  if (made) return <FirstRun project={made} />;
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
            error={problemOf(making.error, 'name')}
          />
          <TextInput
            name="timezone"
            label={t.start.timezone}
            description={t.start.timezoneHint}
            defaultValue={Intl.DateTimeFormat().resolvedOptions().timeZone}
            required
            error={problemOf(making.error, 'timezone')}
          />
          <Failure error={making.error} />
          <Button type="submit" loading={making.isPending}>
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

/** Keys, a first request, and word of its arrival. */
function FirstRun({ project }: { project: Made }) {
  const [keys, setKeys] = useState<Partial<Record<KeyType, string>>>({});
  const making = useMutation({
    async mutationFn() {
      // One after the other, and each is kept at once: where the second fails, the first is there all the same.
      for (const type of KEY_TYPES.filter((each) => keys[each] === undefined)) {
        const key = keyOf(await read(apiOf(project.id).POST('/api-keys', { body: { name: KEY_NAMES[type], type } })));
        setKeys((before) => ({ ...before, [type]: key }));
        if (type === 'public') rememberKey(project.id, key);
      }
    },
  });
  const arrived = useQuery({
    queryKey: [project.id, 'first-event'],
    queryFn: ({ signal }) => read(apiOf(project.id).GET('/events', { params: { query: { limit: 1 } }, signal })),
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
            <Button onClick={() => making.mutate()} loading={making.isPending}>
              {t.start.makeKeys}
            </Button>
          )}
          <Failure error={making.error} />
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
