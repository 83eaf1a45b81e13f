import {
  Outlet,
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from '@tanstack/react-router';
import { findSession, session } from '../session/session';
import { ErrorScreen } from './error-screen';
import { Frame } from './frame';
import { Notices } from './notices';
import { enumParam, pageParam, textParam } from './search';
import { NotFound, Shell } from './shell';
import { SessionEnded } from '../session/session-ended';
import {
  CAMPAIGN_STATUSES,
  CHANNELS,
  CHANNEL_TABS,
  DEAD_LETTER_KINDS,
  DELIVERY_STATUSES,
  FLOW_VIEWS,
  ID_TYPES,
  MESSAGE_STATUSES,
  USER_TABS,
  PLATFORMS,
  RANGES,
  RUN_STATUSES,
  SUPPRESSION_REASONS,
} from './values';

const root = createRootRoute({
  component: () => (
    <>
      <Outlet />
      <Notices />
      <SessionEnded />
    </>
  ),
  notFoundComponent: NotFound,
});

/** Redirects to the sign-in screen without a session; sign-in then returns to the requested screen. */
async function requireSession({ location }: { location: { href: string } }): Promise<void> {
  const { user } = session.get().user === undefined ? await findSession() : session.get();
  if (!user) throw redirect({ to: '/sign-in', search: { next: location.href } });
}

const start = createRoute({
  getParentRoute: () => root,
  path: '/',
  async beforeLoad(context) {
    await requireSession(context);
    const [first] = session.get().projects;
    if (!first) throw redirect({ to: '/new-project' });
    throw redirect({ to: '/p/$projectId/overview', params: { projectId: first.id } });
  },
});

const signIn = createRoute({
  getParentRoute: () => root,
  path: '/sign-in',
  validateSearch: (raw: Record<string, unknown>): { next?: string } => ({ next: textParam(raw, 'next') }),
  component: lazyRouteComponent(() => import('../session/sign-in'), 'SignIn'),
});

const acceptInvite = createRoute({
  getParentRoute: () => root,
  path: '/accept-invite',
  validateSearch: (raw: Record<string, unknown>): { token?: string } => ({ token: textParam(raw, 'token') }),
  component: lazyRouteComponent(() => import('../session/accept-invite'), 'AcceptInvite'),
});

const framed = createRoute({ getParentRoute: () => root, id: 'framed', beforeLoad: requireSession, component: Frame });

const newProject = createRoute({
  getParentRoute: () => framed,
  path: '/new-project',
  component: lazyRouteComponent(() => import('../features/start/new-project'), 'NewProject'),
});

const account = createRoute({
  getParentRoute: () => framed,
  path: '/account',
  component: lazyRouteComponent(() => import('../features/account/account'), 'AccountScreen'),
});

const project = createRoute({
  getParentRoute: () => root,
  path: '/p/$projectId',
  beforeLoad: requireSession,
  component: Shell,
});

const at = { getParentRoute: () => project };

const screens = [
  createRoute({
    ...at,
    path: 'overview',
    validateSearch: (raw: Record<string, unknown>): { range?: (typeof RANGES)[number] } => ({
      range: enumParam(raw, 'range', RANGES),
    }),
    component: lazyRouteComponent(() => import('../features/overview/overview'), 'Overview'),
  }),
  createRoute({
    ...at,
    path: 'events',
    validateSearch: (
      raw: Record<string, unknown>,
    ): { event?: string; user?: string; idType?: (typeof ID_TYPES)[number]; search?: string; page?: number } => ({
      event: textParam(raw, 'event'),
      user: textParam(raw, 'user'),
      idType: enumParam(raw, 'idType', ID_TYPES),
      search: textParam(raw, 'search'),
      page: pageParam(raw),
    }),
    component: lazyRouteComponent(() => import('../features/events/events'), 'Events'),
  }),
  createRoute({
    ...at,
    path: 'users',
    validateSearch: (
      raw: Record<string, unknown>,
    ): { search?: string; filter?: 'active' | 'inactive'; page?: number } => ({
      search: textParam(raw, 'search'),
      filter: enumParam(raw, 'filter', ['active', 'inactive']),
      page: pageParam(raw),
    }),
    component: lazyRouteComponent(() => import('../features/users/users'), 'Users'),
  }),
  createRoute({
    ...at,
    path: 'users/$userId',
    validateSearch: (
      raw: Record<string, unknown>,
    ): { tab?: (typeof USER_TABS)[number]; idType?: (typeof ID_TYPES)[number] } => ({
      tab: enumParam(raw, 'tab', USER_TABS),
      idType: enumParam(raw, 'idType', ID_TYPES),
    }),
    component: lazyRouteComponent(() => import('../features/users/user'), 'UserScreen'),
  }),
  createRoute({
    ...at,
    path: 'segments',
    component: lazyRouteComponent(() => import('../features/segments/segments'), 'Segments'),
  }),
  createRoute({
    ...at,
    path: 'segments/$segmentId',
    component: lazyRouteComponent(() => import('../features/segments/segment'), 'SegmentScreen'),
  }),
  createRoute({
    ...at,
    path: 'templates',
    validateSearch: (raw: Record<string, unknown>): { channel?: (typeof CHANNELS)[number] } => ({
      channel: enumParam(raw, 'channel', CHANNELS),
    }),
    component: lazyRouteComponent(() => import('../features/templates/templates'), 'Templates'),
  }),
  createRoute({
    ...at,
    path: 'templates/$templateId',
    component: lazyRouteComponent(() => import('../features/templates/template'), 'TemplateScreen'),
  }),
  createRoute({
    ...at,
    path: 'automations',
    component: lazyRouteComponent(() => import('../features/automations/automations'), 'Automations'),
  }),
  createRoute({
    ...at,
    path: 'automations/$automationId',
    validateSearch: (raw: Record<string, unknown>): { view?: (typeof FLOW_VIEWS)[number] } => ({
      view: enumParam(raw, 'view', FLOW_VIEWS),
    }),
    component: lazyRouteComponent(() => import('../features/automations/automation'), 'AutomationScreen'),
  }),
  createRoute({
    ...at,
    path: 'automations/$automationId/runs',
    validateSearch: (raw: Record<string, unknown>): { status?: (typeof RUN_STATUSES)[number]; user?: string } => ({
      status: enumParam(raw, 'status', RUN_STATUSES),
      user: textParam(raw, 'user'),
    }),
    component: lazyRouteComponent(() => import('../features/automations/runs'), 'Runs'),
  }),
  createRoute({
    ...at,
    path: 'automations/$automationId/runs/$runId',
    component: lazyRouteComponent(() => import('../features/automations/run'), 'RunScreen'),
  }),
  createRoute({
    ...at,
    path: 'campaigns',
    validateSearch: (raw: Record<string, unknown>): { status?: (typeof CAMPAIGN_STATUSES)[number] } => ({
      status: enumParam(raw, 'status', CAMPAIGN_STATUSES),
    }),
    component: lazyRouteComponent(() => import('../features/campaigns/campaigns'), 'Campaigns'),
  }),
  createRoute({
    ...at,
    path: 'campaigns/$campaignId',
    component: lazyRouteComponent(() => import('../features/campaigns/campaign'), 'CampaignScreen'),
  }),
  createRoute({
    ...at,
    path: 'messages',
    validateSearch: (
      raw: Record<string, unknown>,
    ): {
      userId?: string;
      channel?: (typeof CHANNELS)[number];
      status?: (typeof MESSAGE_STATUSES)[number];
      page?: number;
    } => ({
      userId: textParam(raw, 'userId'),
      channel: enumParam(raw, 'channel', CHANNELS),
      status: enumParam(raw, 'status', MESSAGE_STATUSES),
      page: pageParam(raw),
    }),
    component: lazyRouteComponent(() => import('../features/messages/messages'), 'Messages'),
  }),
  createRoute({
    ...at,
    path: 'messages/$messageId',
    component: lazyRouteComponent(() => import('../features/messages/message'), 'MessageScreen'),
  }),
  createRoute({
    ...at,
    path: 'dead-letters',
    validateSearch: (
      raw: Record<string, unknown>,
    ): {
      kind?: (typeof DEAD_LETTER_KINDS)[number];
      channel?: (typeof CHANNELS)[number];
      reason?: string;
      page?: number;
    } => ({
      kind: enumParam(raw, 'kind', DEAD_LETTER_KINDS),
      channel: enumParam(raw, 'channel', CHANNELS),
      reason: textParam(raw, 'reason'),
      page: pageParam(raw),
    }),
    component: lazyRouteComponent(() => import('../features/messages/dead-letters'), 'DeadLetters'),
  }),
  createRoute({ ...at, path: 'news', component: lazyRouteComponent(() => import('../features/news/news'), 'News') }),
  createRoute({
    ...at,
    path: 'channels',
    validateSearch: (
      raw: Record<string, unknown>,
    ): {
      tab?: (typeof CHANNEL_TABS)[number];
      platform?: (typeof PLATFORMS)[number];
      user?: string;
      page?: number;
    } => ({
      tab: enumParam(raw, 'tab', CHANNEL_TABS),
      platform: enumParam(raw, 'platform', PLATFORMS),
      user: textParam(raw, 'user'),
      page: pageParam(raw),
    }),
    component: lazyRouteComponent(() => import('../features/channels/channels'), 'ChannelsScreen'),
  }),
  createRoute({
    ...at,
    path: 'suppressions',
    validateSearch: (
      raw: Record<string, unknown>,
    ): {
      channel?: (typeof CHANNELS)[number];
      reason?: (typeof SUPPRESSION_REASONS)[number];
      address?: string;
      page?: number;
    } => ({
      channel: enumParam(raw, 'channel', CHANNELS),
      reason: enumParam(raw, 'reason', SUPPRESSION_REASONS),
      address: textParam(raw, 'address'),
      page: pageParam(raw),
    }),
    component: lazyRouteComponent(() => import('../features/subscriptions/suppressions'), 'Suppressions'),
  }),
  createRoute({
    ...at,
    path: 'subscription-groups',
    component: lazyRouteComponent(() => import('../features/subscriptions/groups'), 'SubscriptionGroups'),
  }),
  createRoute({
    ...at,
    path: 'api-keys',
    component: lazyRouteComponent(() => import('../features/access/api-keys'), 'ApiKeys'),
  }),
  createRoute({ ...at, path: 'team', component: lazyRouteComponent(() => import('../features/access/team'), 'Team') }),
  createRoute({
    ...at,
    path: 'webhooks',
    component: lazyRouteComponent(() => import('../features/webhooks/webhooks'), 'Webhooks'),
  }),
  createRoute({
    ...at,
    path: 'webhooks/$endpointId',
    validateSearch: (raw: Record<string, unknown>): { status?: (typeof DELIVERY_STATUSES)[number] } => ({
      status: enumParam(raw, 'status', DELIVERY_STATUSES),
    }),
    component: lazyRouteComponent(() => import('../features/webhooks/endpoint'), 'EndpointScreen'),
  }),
  createRoute({
    ...at,
    path: 'settings',
    component: lazyRouteComponent(() => import('../features/settings/settings'), 'Settings'),
  }),
  createRoute({
    ...at,
    path: 'audit-log',
    validateSearch: (raw: Record<string, unknown>): { action?: string; page?: number } => ({
      action: textParam(raw, 'action'),
      page: pageParam(raw),
    }),
    component: lazyRouteComponent(() => import('../features/settings/audit-log'), 'AuditLog'),
  }),
] as const;

const tree = root.addChildren([
  start,
  signIn,
  acceptInvite,
  framed.addChildren([newProject, account]),
  project.addChildren(screens),
]);

export const router = createRouter({
  routeTree: tree,
  defaultErrorComponent: ErrorScreen,
  scrollRestoration: true,
  defaultPendingMs: 200,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
