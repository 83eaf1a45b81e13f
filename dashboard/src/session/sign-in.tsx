import { Button, Container, Paper, PasswordInput, Stack, Text, TextInput, Title } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { getRouteApi, useRouter } from '@tanstack/react-router';
import { type FormEvent, useEffect } from 'react';
import { Failure } from '../components/failure';
import { t } from '../text';
import { signIn } from './session';

const route = getRouteApi('/sign-in');

export function SignIn() {
  const { next } = route.useSearch();
  const router = useRouter();
  const signing = useMutation({
    mutationFn: ({ email, password }: { email: string; password: string }) => signIn(email, password),
    // Only to paths of this origin, to prevent open redirects.
    onSuccess: () => router.history.push(next && /^\/(?!\/)/.test(next) ? next : '/'),
  });
  useEffect(() => {
    document.title = `${t.signIn.title} · Rekindle`;
  }, []);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    signing.mutate({ email: String(form.get('email')), password: String(form.get('password')) });
  };
  return (
    <Container component="main" size={400} py={64}>
      <Title order={1} size="h2" mb="md" ta="center">
        {t.signIn.title}
      </Title>
      <Paper withBorder p="lg" component="form" onSubmit={submit}>
        <Stack>
          <TextInput name="email" type="email" label={t.signIn.email} autoComplete="username" required autoFocus />
          <PasswordInput
            name="password"
            label={t.signIn.password}
            autoComplete="current-password"
            required
            visibilityToggleButtonProps={{ 'aria-label': t.signIn.reveal }}
          />
          <Failure error={signing.error} />
          <Button type="submit" loading={signing.isPending}>
            {t.signIn.submit}
          </Button>
        </Stack>
      </Paper>
      <Text size="sm" c="dimmed" mt="md">
        {t.signIn.forgotten}
      </Text>
    </Container>
  );
}
