import { Button, Group, Modal, PasswordInput, Stack, Text, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import type { FormEvent } from 'react';
import { Failure } from '../components/failure';
import { t } from '../text';
import { signIn } from './session';
import { useSession } from './use-session';

/** Sign-in dialog over the current screen, which keeps its state and continues afterwards. */
export function SessionEnded() {
  const { expired, user } = useSession();
  const signing = useMutation({ mutationFn: (password: string) => signIn(user?.email ?? '', password) });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    signing.mutate(String(new FormData(event.currentTarget).get('password')));
  };
  return (
    <Modal
      opened={expired}
      onClose={() => {}}
      withCloseButton={false}
      closeOnEscape={false}
      closeOnClickOutside={false}
      title={t.ended.title}
      zIndex={300}
    >
      <form onSubmit={submit}>
        <Stack>
          <Text size="sm">{t.ended.text}</Text>
          <TextInput label={t.signIn.email} value={user?.email ?? ''} readOnly autoComplete="username" />
          <PasswordInput
            name="password"
            label={t.signIn.password}
            autoComplete="current-password"
            required
            data-autofocus
            visibilityToggleButtonProps={{ 'aria-label': t.signIn.reveal }}
          />
          <Failure error={signing.error} />
          <Group justify="space-between">
            <Button variant="default" onClick={() => location.assign('/sign-in')}>
              {t.ended.leave}
            </Button>
            <Button type="submit" loading={signing.isPending}>
              {t.signIn.submit}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
