import { Button, PasswordInput, Stack, Text } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import type { FormEvent } from 'react';
import { api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { notify } from '../../app/notice';
import { namesOf } from '../../app/field-labels';
import { Failure } from '../../components/failure';
import { Page, Section } from '../../components/page';
import { useSession } from '../../session/use-session';
import { t } from '../../text';
import { Sessions } from './sessions';

const FIELD_NAMES = namesOf({ currentPassword: t.account.current, newPassword: t.account.next });

export function AccountScreen() {
  const { user } = useSession();
  const changing = useMutation({
    mutationFn: (body: { currentPassword: string; newPassword: string }) => read(api.POST('/auth/password', { body })),
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const element = event.currentTarget;
    const form = new FormData(element);
    changing.mutate(
      { currentPassword: String(form.get('current')), newPassword: String(form.get('next')) },
      {
        onSuccess() {
          element.reset();
          notify(t.account.done);
        },
      },
    );
  };
  const eye = { 'aria-label': t.signIn.reveal };
  return (
    <Page title={t.account.title}>
      <Text>{t.account.email(user?.email ?? '')}</Text>
      <Section title={t.account.change}>
        <form onSubmit={submit}>
          <input type="hidden" name="username" autoComplete="username" value={user?.email ?? ''} readOnly />
          <Stack>
            <PasswordInput
              name="current"
              label={t.account.current}
              autoComplete="current-password"
              required
              error={problemOf(changing.error, 'currentPassword')}
              visibilityToggleButtonProps={eye}
            />
            <PasswordInput
              name="next"
              label={t.account.next}
              description={t.invite.passwordHint}
              autoComplete="new-password"
              required
              error={problemOf(changing.error, 'newPassword')}
              visibilityToggleButtonProps={eye}
            />
            <Failure error={changing.error} nameField={FIELD_NAMES} />
            <Button type="submit" loading={changing.isPending}>
              {t.account.submit}
            </Button>
          </Stack>
        </form>
      </Section>
      <Sessions />
    </Page>
  );
}
