import { Button, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { api, read, workOn } from '../../api/client';
import { problemOf } from '../../api/failure';
import { firstEvent } from '../../app/first-event';
import { Failure } from '../../components/failure';
import { ButtonLink } from '../../components/links';
import { Page, Section } from '../../components/page';
import { Snippet } from '../../components/snippet';
import { findSession } from '../../session/session';
import { useSession } from '../../session/use-session';
import { t } from '../../text';

interface Made {
  id: string;
  name: string;
}

export function NewProject() {
  const { projects } = useSession();
  const [made, setMade] = useState<Made | null>(null);
  const making = useMutation({
    mutationFn: (input: { name: string; timezone: string }) => read(api.POST('/projects', { body: input })),
    async onSuccess(project) {
      await findSession();
      workOn(project.id);
      setMade(project);
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
          <TextInput name="name" label={t.start.name} required maxLength={200} autoFocus error={problemOf(making.error, 'name')} />
          <TextInput name="timezone" label={t.start.timezone} description={t.start.timezoneHint} defaultValue={Intl.DateTimeFormat().resolvedOptions().timeZone} required error={problemOf(making.error, 'timezone')} />
          <Failure error={making.error} />
          <Button type="submit" loading={making.isPending}>
            {t.start.submit}
          </Button>
        </Stack>
      </form>
    </Page>
  );
}

/** Keys, a first request, and word of its arrival. */
function FirstRun({ project }: { project: Made }) {
  const making = useMutation({
    async mutationFn() {
      const make = (type: 'public' | 'secret', name: string) => read(api.POST('/api-keys', { body: { name, type } }));
      const publicKey = await make('public', t.start.publicKey);
      const secretKey = await make('secret', t.start.secretKey);
      return { publicKey: publicKey.key ?? '', secretKey: secretKey.key ?? '' };
    },
  });
  const arrived = useQuery({
    queryKey: [project.id, 'first-event'],
    queryFn: ({ signal }) => read(api.GET('/events', { params: { query: { limit: 1 } }, signal })),
    enabled: making.isSuccess,
    refetchInterval: (query) => (query.state.data?.events.length ? false : 1_500),
  });
  const first = arrived.data?.events[0];
  return (
    <Page title={project.name} actions={<ButtonLink to="/p/$projectId/overview" params={{ projectId: project.id }}>{t.start.go}</ButtonLink>}>
      <Section title={t.start.keys}>
        <Stack>
          <Text size="sm">{t.start.keysText}</Text>
          {making.data ? (
            <>
              <Snippet label={t.start.publicKey} code={making.data.publicKey} />
              <Snippet label={t.start.secretKey} code={making.data.secretKey} />
            </>
          ) : (
            <Button onClick={() => making.mutate()} loading={making.isPending}>
              {t.start.makeKeys}
            </Button>
          )}
          <Failure error={making.error} />
        </Stack>
      </Section>
      {making.data && (
        <Section title={t.start.first}>
          <Snippet label={t.start.firstText} code={firstEvent(location.origin, making.data.publicKey)} />
          <Text mt="md" role="status">
            {first ? t.start.arrived(first.eventName) : t.start.waiting}
          </Text>
          <Failure error={arrived.error} />
        </Section>
      )}
    </Page>
  );
}
