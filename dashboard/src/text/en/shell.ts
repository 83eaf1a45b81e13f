const count = new Intl.NumberFormat('en');

/** Words of all screens. */
export const shell = {
  product: 'Rekindle',
  close: 'Close',
  cancel: 'Cancel',
  save: 'Save',
  saved: 'Saved.',
  create: 'Create',
  edit: 'Edit',
  remove: 'Delete',
  add: 'Add',
  copy: 'Copy',
  copied: 'Copied',
  once: 'This is shown once: only a hash of it is kept. Put it where it is needed before you close this.',
  kept: 'I have kept it',
  yes: 'Yes',
  no: 'No',
  none: 'None',
  any: 'Any',
  name: 'Name',
  more: 'Show more',
  number: (value: number) => count.format(value),
  apply: 'Apply',
  clear: 'Clear',
  adminOnly: 'Only an ADMIN of the project can change this.',
  failure: {
    loading: 'Loading',
    retry: 'Try again',
    request: (id: string) => `Request ${id}`,
    title: (status: number) =>
      status === 0
        ? 'No connection'
        : status === 422
          ? 'Not saved: something needs to be changed'
          : status === 403
            ? 'Not allowed'
            : status === 404
              ? 'Not found'
              : status === 409
                ? 'Not possible now'
                : status === 412
                  ? 'Somebody else has changed this meanwhile'
                  : status === 429
                    ? 'Too many requests'
                    : status === 401
                      ? 'Not signed in'
                      : 'That did not work',
  },
  json: { unreadable: (why: string) => `This is not JSON yet: ${why}`, properties: 'Properties (JSON)' },
  ask: { type: (text: string) => `Type ${text} to go on` },
  draft: {
    title: 'Leave without saving?',
    text: 'What you changed here is not saved yet.',
    leave: 'Leave without saving',
    stay: 'Stay here',
  },
  conflict: {
    title: 'Somebody else has changed this meanwhile',
    text: 'Nothing was overwritten, and what you entered is still here.',
    see: 'See theirs in a new tab',
    load: 'Load theirs, and drop mine',
    over: 'Save mine over theirs',
  },
  pager: {
    label: 'Pages',
    previous: 'Previous',
    next: 'Next',
    page: (page: number, pages: number) => `Page ${count.format(page)} of ${count.format(pages)}`,
    total: (total: number, capped: boolean) =>
      capped ? `More than ${count.format(total)}` : `${count.format(total)} in all`,
  },
  broken: { title: 'This screen cannot be shown', reload: 'Load it again' },
  notFound: { title: 'There is no such screen', back: 'To the overview' },
  shell: {
    skip: 'To the content',
    menu: 'Menu',
    project: 'Project',
    noProject: 'A project you do not belong to',
    newProject: 'New project…',
    light: 'Light',
    dark: 'Dark',
    account: 'Account',
    signOut: 'Sign out',
  },
  nav: {
    watch: 'Watch',
    people: 'People',
    reach: 'Reach',
    setUp: 'Set up',
    overview: 'Overview',
    events: 'Events',
    messages: 'Messages',
    deadLetters: 'Dead letters',
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
    settings: 'Settings',
    auditLog: 'Audit log',
  },
  signIn: {
    title: 'Sign in to Rekindle',
    email: 'Email',
    password: 'Password',
    submit: 'Sign in',
    reveal: 'Show the password',
    lost: 'The address and password of the first account were printed by `make up`. Whoever runs this installation gives new passwords with `rekindle account reset-password`.',
  },
  ended: {
    title: 'Your session has ended',
    leave: 'Leave, and lose what is not saved',
    text: 'Sign in again to go on. What you have entered is still here, and is saved as soon as you are back.',
  },
  invite: {
    title: 'Join the team',
    text: 'Choose a name and a password. If you have an account with this address already, give its password.',
    name: 'Your name',
    password: 'Password',
    passwordHint: '8 to 200 characters; no common password',
    submit: 'Join',
    noToken: 'This address is incomplete: open the link of the invitation as a whole.',
  },
  account: {
    title: 'Account',
    email: (email: string) => `You are signed in as ${email}.`,
    change: 'Change the password',
    current: 'Current password',
    next: 'New password',
    submit: 'Change the password',
    done: 'The password is changed, and other sessions of yours have ended.',
    sessions: 'Where you are signed in',
    browser: 'Browser',
    unknown: 'Unknown',
    here: '(this one)',
    since: 'Since',
    used: 'Last used',
    end: 'Sign out',
    endTitle: 'Sign out there?',
    endText: (browser: string) => `${browser} is signed out at once.`,
    endOthers: 'Sign out everywhere else',
    endOthersTitle: 'Sign out everywhere else?',
    endOthersText: 'All your sessions but this one end at once.',
    ended: 'Signed out.',
  },
  start: {
    title: 'New project',
    text: 'A project is one product and its people. It gets keys of its own.',
    name: 'Name',
    timezone: 'Timezone',
    timezoneHint: 'For reports and schedules',
    submit: 'Create the project',
    keys: 'Its keys',
    keysText:
      'These two are shown this once. The public one may be in apps and pages; the secret one stays on servers.',
    publicKey: 'Public key',
    secretKey: 'Secret key',
    first: 'Send a first event',
    firstText: 'From a terminal:',
    waiting: 'Waiting for the first event…',
    arrived: (name: string) => `It is here: ${name}.`,
    go: 'To the project',
    makeKeys: 'Make its keys',
    none: 'You do not belong to any project yet. Make one, or ask to be invited to one.',
  },
};
