import { Button, Container, Paper, PasswordInput, Stack, Text, TextInput, Title } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { type FormEvent, useEffect } from 'react';
import { problemOf } from '../api/failure';
import { namesOf } from '../app/field-labels';
import { Failure } from '../components/failure';
import { t } from '../text';

const FIELD_NAMES = namesOf({ name: t.invite.name, password: t.invite.password });
import { acceptInvite } from './session';

const route = getRouteApi('/accept-invite');

export function AcceptInvite() {
  const { token } = route.useSearch();
  const navigate = useNavigate();
  const accepting = useMutation({
    mutationFn: ({ name, password }: { name: string; password: string }) => acceptInvite(token ?? '', name, password),
    onSuccess: () => navigate({ to: '/', replace: true }),
  });
  useEffect(() => {
    document.title = `${t.invite.title} · Rekindle`;
  }, []);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    accepting.mutate({ name: String(form.get('name')), password: String(form.get('password')) });
  };
  return (
    <Container component="main" size={440} py={64}>
      <Title order={1} size="h2" mb="md">
        {t.invite.title}
      </Title>
      {token === undefined ? (
        <Text>{t.invite.noToken}</Text>
      ) : (
        <Paper withBorder p="lg" component="form" onSubmit={submit}>
          <Stack>
            <Text size="sm">{t.invite.text}</Text>
            <TextInput
              name="name"
              label={t.invite.name}
              autoComplete="name"
              required
              error={problemOf(accepting.error, 'name')}
            />
            <PasswordInput
              name="password"
              label={t.invite.password}
              description={t.invite.passwordHint}
              autoComplete="new-password"
              required
              error={problemOf(accepting.error, 'password')}
              visibilityToggleButtonProps={{ 'aria-label': t.signIn.reveal }}
            />
            <Failure error={accepting.error} nameField={FIELD_NAMES} />
            <Button type="submit" loading={accepting.isPending}>
              {t.invite.submit}
            </Button>
          </Stack>
        </Paper>
      )}
    </Container>
  );
}
