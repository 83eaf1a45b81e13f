import { Anchor, AppShell, Box, Burger, Group, NativeSelect, ScrollArea, Text, Title } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { Outlet, useNavigate, useParams, useRouterState } from '@tanstack/react-router';
import { type MouseEvent, useEffect, useLayoutEffect } from 'react';
import { setCurrentProject } from '../api/client';
import { ButtonLink, NavigationLink, ScreenLink } from '../components/links';
import { useSession } from '../session/use-session';
import { t } from '../text';
import { AccountLinks } from './account-links';
import { NAVIGATION } from './navigation';

/** Moves the focus to the content without changing the URL, because that would trigger the unsaved-changes dialog. */
function skipToContent(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById('content')?.focus();
}

/** Header and navigation around the screens of a project. */
export function Shell() {
  const { projectId } = useParams({ from: '/p/$projectId' });
  // In a layout effect: after the old screens are gone, and before the new ones send requests.
  useLayoutEffect(() => setCurrentProject(projectId), [projectId]);
  const [open, { toggle, close }] = useDisclosure(false);
  const path = useRouterState({ select: (state) => state.location.pathname });
  useEffect(close, [path, close]);
  return (
    <AppShell
      transitionDuration={0}
      header={{ height: 56 }}
      navbar={{ width: 216, breakpoint: 'sm', collapsed: { mobile: !open } }}
      padding="md"
    >
      <a href="#content" className="skip" onClick={skipToContent}>
        {t.shell.skip}
      </a>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger
              opened={open}
              onClick={toggle}
              hiddenFrom="sm"
              size="sm"
              aria-label={t.shell.menu}
              aria-expanded={open}
            />
            <ScreenLink to="/" fw={700} c="inherit" underline="never" visibleFrom="sm">
              {t.product}
            </ScreenLink>
            <ProjectSwitch />
          </Group>
          <Box visibleFrom="sm">
            <AccountLinks />
          </Box>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs">
        <AppShell.Section grow component={ScrollArea} viewportProps={{ tabIndex: 0 }}>
          <Navigation path={path} />
        </AppShell.Section>
        <AppShell.Section pt="xs">
          <DocumentationLinks />
        </AppShell.Section>
        <AppShell.Section hiddenFrom="sm" pt="xs">
          <AccountLinks />
        </AppShell.Section>
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1}>
        <Box maw={1200} mx="auto">
          <Outlet key={projectId} />
        </Box>
      </AppShell.Main>
    </AppShell>
  );
}

function Navigation({ path }: { path: string }) {
  const { projectId } = useParams({ from: '/p/$projectId' });
  const role = useSession().projects.find((each) => each.id === projectId)?.role;
  return (
    <>
      {NAVIGATION.map((group) => {
        const links = group.links.filter((link) => !link.admin || role === 'ADMIN');
        if (links.length === 0) return null;
        return (
          <Box key={group.title} mb="xs">
            <Text size="xs" fw={600} c="dimmed" px="xs" component="h2" m={0}>
              {group.title}
            </Text>
            {links.map(({ to, title }) => {
              const url = to.replace('$projectId', projectId);
              const isCurrent = path === url || path.startsWith(`${url}/`);
              return (
                <NavigationLink
                  key={to}
                  to={to}
                  params={{ projectId }}
                  label={title}
                  active={isCurrent}
                  aria-current={isCurrent ? 'page' : undefined}
                  variant="filled"
                  py={4}
                />
              );
            })}
          </Box>
        );
      })}
    </>
  );
}

/** Links to the manual and the API reference, which the gateway serves. */
function DocumentationLinks() {
  return (
    <Group gap={0} px="xs" style={{ columnGap: 12 }}>
      <Anchor fz="xs" py={4} href="/docs/" target="_blank" rel="noopener">
        {t.shell.documentation}
      </Anchor>
      <Anchor fz="xs" py={4} href="/docs/api" target="_blank" rel="noopener">
        {t.shell.apiReference}
      </Anchor>
    </Group>
  );
}

function ProjectSwitch() {
  const { projectId } = useParams({ from: '/p/$projectId' });
  const { projects } = useSession();
  const navigate = useNavigate();
  const go = (chosen: string) =>
    chosen === ''
      ? navigate({ to: '/new-project' })
      : navigate({ to: '/p/$projectId/overview', params: { projectId: chosen } });
  const isMember = projects.some((project) => project.id === projectId);
  return (
    <NativeSelect
      aria-label={t.shell.project}
      size="sm"
      value={projectId}
      onChange={(event) => void go(event.currentTarget.value)}
    >
      {!isMember && <option value={projectId}>{t.shell.noProject}</option>}
      {projects.map((project) => (
        <option key={project.id} value={project.id}>
          {project.name}
        </option>
      ))}
      <option value="">{t.shell.newProject}</option>
    </NativeSelect>
  );
}

export function NotFound() {
  return (
    <Box component="main" p="xl">
      <Title order={1} size="h3" mb="sm">
        {t.notFound.title}
      </Title>
      <ButtonLink to="/">{t.notFound.back}</ButtonLink>
    </Box>
  );
}
