const count = new Intl.NumberFormat('en');

/** Texts that all screens share. */
export const shell = {
  product: 'Rekindle',
  close: 'Close',
  cancel: 'Cancel',
  save: 'Save',
  saved: 'Saved.',
  edit: 'Edit',
  remove: 'Delete',
  add: 'Add',
  copy: 'Copy',
  copied: 'Copied',
  secretOnce: 'Copy this now. It will not be shown again.',
  done: 'Done',
  yes: 'Yes',
  no: 'No',
  none: 'None',
  any: 'Any',
  more: 'Show more',
  number: (value: number) => count.format(value),
  adminOnly: 'Only an admin of the project can change this.',
  failure: {
    loading: 'Loading',
    retry: 'Try again',
    request: (id: string) => `Request ID: ${id}`,
    title: (status: number) =>
      status === 0
        ? 'No connection'
        : status === 422
          ? 'Not saved: correct the following and try again'
          : status === 403
            ? 'Permission denied'
            : status === 404
              ? 'Not found'
              : status === 409
                ? 'Not possible in the current state'
                : status === 412
                  ? 'Changed by someone else'
                  : status === 429
                    ? 'Too many requests'
                    : status === 401
                      ? 'Not signed in'
                      : 'Something went wrong',
    unreachable: 'The server cannot be reached. Your input is kept: check your connection and try again.',
    /** An entry of a list. */
    entry: (number: number) => `Entry ${number}`,
    unexplained: (status: number) => `The server returned status ${status} without an explanation. Try again later.`,
  },
  json: { unreadable: (why: string) => `Invalid JSON: ${why}`, properties: 'Properties (JSON)' },
  confirm: { type: (text: string) => `Type ${text} to confirm` },
  draft: {
    title: 'Leave without saving?',
    text: 'Your changes have not been saved.',
    leave: 'Leave without saving',
    stay: 'Keep editing',
  },
  conflict: {
    title: 'Changed by someone else',
    text: 'Nothing was overwritten, and your changes are still here.',
    view: 'View the other version in a new tab',
    discard: 'Discard my changes',
    overwrite: 'Overwrite',
  },
  pager: {
    label: 'Pages',
    previous: 'Previous',
    next: 'Next',
    page: (page: number, pages: number) => `Page ${count.format(page)} of ${count.format(pages)}`,
    total: (total: number, capped: boolean) =>
      capped ? `More than ${count.format(total)}` : `${count.format(total)} total`,
  },
  broken: { title: 'This page could not be displayed', reload: 'Reload' },
  notFound: { title: 'Page not found', back: 'Go to overview' },
  shell: {
    skip: 'Skip to content',
    menu: 'Menu',
    project: 'Project',
    noProject: 'A project that you do not belong to',
    newProject: 'New project…',
    light: 'Light',
    dark: 'Dark',
    account: 'Account',
    signOut: 'Sign out',
    documentation: 'Documentation',
    apiReference: 'API reference',
  },
  nav: {
    activityGroup: 'Activity',
    audienceGroup: 'Audience',
    messagingGroup: 'Messaging',
    settingsGroup: 'Settings',
    overview: 'Overview',
    events: 'Events',
    messages: 'Messages',
    deadLetters: 'Failed messages',
    users: 'Users',
    segments: 'Segments',
    groups: 'Subscription groups',
    suppressions: 'Suppressions',
    automations: 'Automations',
    campaigns: 'Campaigns',
    templates: 'Templates',
    news: 'News feed',
    channels: 'Channels',
    apiKeys: 'API keys',
    webhooks: 'Webhooks',
    team: 'Team',
    settings: 'Project settings',
    auditLog: 'Audit log',
  },
  signIn: {
    title: 'Sign in to Rekindle',
    email: 'Email',
    password: 'Password',
    submit: 'Sign in',
    reveal: 'Show password',
    forgotten:
      'First sign-in: `make up` printed the address and password of the first account. Forgot your password? Ask your administrator to reset it (`rekindle account reset-password`).',
  },
  ended: {
    title: 'Your session has ended',
    leave: 'Leave without saving',
    text: 'Sign in again to continue. Your changes are still here and will be saved after you sign in.',
  },
  invite: {
    title: 'Join the team',
    text: 'Choose a name and a password. If this address already has an account, enter its password.',
    name: 'Your name',
    password: 'Password',
    passwordHint: '8 to 200 characters; no common password',
    submit: 'Join',
    noToken: 'This link is incomplete. Open the full link from your invitation.',
  },
  account: {
    title: 'Account',
    email: (email: string) => `You are signed in as ${email}.`,
    change: 'Change password',
    current: 'Current password',
    next: 'New password',
    submit: 'Change password',
    done: 'Password changed. Your other sessions have been signed out.',
    sessions: 'Active sessions',
    browser: 'Browser',
    unknown: 'Unknown',
    here: '(this one)',
    since: 'Signed in',
    used: 'Last used',
    end: 'Sign out',
    endTitle: 'Sign out this session?',
    endText: (browser: string) => `${browser} is signed out immediately.`,
    endOthers: 'Sign out all other sessions',
    endOthersTitle: 'Sign out all other sessions?',
    endOthersText: 'All your sessions except this one end immediately.',
    ended: 'Signed out.',
  },
  start: {
    title: 'New project',
    text: 'A project is one product and its users. Each project has its own API keys.',
    name: 'Name',
    timezone: 'Time zone',
    timezoneHint: 'Used for reports and schedules',
    submit: 'Create project',
    keys: 'API keys',
    keysText:
      'Copy both keys now: they are shown once. Use the public key in apps and web pages; keep the secret key on your servers.',
    publicKey: 'Public key',
    secretKey: 'Secret key',
    first: 'Send your first event',
    firstText: 'From a terminal:',
    waiting: 'Waiting for the first event…',
    arrived: (name: string) => `Event received: ${name}.`,
    go: 'Go to project',
    createKeys: 'Create API keys',
    none: 'You do not belong to a project yet. Create one, or ask for an invitation.',
  },
};
