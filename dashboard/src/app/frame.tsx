import { Box, Container, Group } from '@mantine/core';
import { Outlet } from '@tanstack/react-router';
import { ScreenLink } from '../components/links';
import { t } from '../text';
import { AccountLinks } from './account-links';

/** Page frame for screens outside a project. */
export function Frame() {
  return (
    <>
      <Box component="header" p="md" style={{ borderBottom: '1px solid var(--mantine-color-default-border)' }}>
        <Group justify="space-between">
          <ScreenLink to="/" fw={700} c="inherit" underline="never">
            {t.product}
          </ScreenLink>
          <AccountLinks />
        </Group>
      </Box>
      <Container component="main" size="sm" py="xl">
        <Outlet />
      </Container>
    </>
  );
}
