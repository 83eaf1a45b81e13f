import { t } from '../text';

/** The screens of a project. Screens for admins are hidden from members; the API refuses their requests. */
export const NAVIGATION = [
  {
    title: t.nav.activityGroup,
    links: [
      { to: '/p/$projectId/overview', title: t.nav.overview, admin: false },
      { to: '/p/$projectId/events', title: t.nav.events, admin: false },
      { to: '/p/$projectId/messages', title: t.nav.messages, admin: false },
      { to: '/p/$projectId/dead-letters', title: t.nav.deadLetters, admin: false },
    ],
  },
  {
    title: t.nav.audienceGroup,
    links: [
      { to: '/p/$projectId/users', title: t.nav.users, admin: false },
      { to: '/p/$projectId/segments', title: t.nav.segments, admin: false },
      { to: '/p/$projectId/subscription-groups', title: t.nav.groups, admin: false },
      { to: '/p/$projectId/suppressions', title: t.nav.suppressions, admin: false },
    ],
  },
  {
    title: t.nav.messagingGroup,
    links: [
      { to: '/p/$projectId/automations', title: t.nav.automations, admin: false },
      { to: '/p/$projectId/campaigns', title: t.nav.campaigns, admin: false },
      { to: '/p/$projectId/templates', title: t.nav.templates, admin: false },
      { to: '/p/$projectId/news', title: t.nav.news, admin: false },
    ],
  },
  {
    title: t.nav.settingsGroup,
    links: [
      { to: '/p/$projectId/channels', title: t.nav.channels, admin: false },
      { to: '/p/$projectId/api-keys', title: t.nav.apiKeys, admin: true },
      { to: '/p/$projectId/webhooks', title: t.nav.webhooks, admin: true },
      { to: '/p/$projectId/team', title: t.nav.team, admin: false },
      { to: '/p/$projectId/settings', title: t.nav.settings, admin: false },
      { to: '/p/$projectId/audit-log', title: t.nav.auditLog, admin: true },
    ],
  },
] as const;
