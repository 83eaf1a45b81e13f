import { Button, Group, useComputedColorScheme, useMantineColorScheme } from '@mantine/core';
import { ButtonLink } from '../components/links';
import { signOut } from '../session/session';
import { useSession } from '../session/use-session';
import { t } from '../text';
import { notify } from './notice';

export function AccountLinks() {
  const { user } = useSession();
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme('light');
  const leave = () =>
    signOut().catch((failure: unknown) => notify(failure instanceof Error ? failure.message : String(failure), true));
  return (
    <Group gap="xs">
      <Button size="xs" variant="default" onClick={() => setColorScheme(scheme === 'dark' ? 'light' : 'dark')}>
        {scheme === 'dark' ? t.shell.light : t.shell.dark}
      </Button>
      <ButtonLink size="xs" variant="default" to="/account" title={user?.email}>
        {t.shell.account}
      </ButtonLink>
      <Button size="xs" variant="default" onClick={() => void leave()}>
        {t.shell.signOut}
      </Button>
    </Group>
  );
}
