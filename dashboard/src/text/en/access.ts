export const access = {
  keys: {
    title: 'API keys', text: 'A public key may be in apps and pages: it can only send what people do. A secret key opens everything, and stays on servers.', create: 'Make a key', name: 'Name', type: 'Kind', types: { public: 'Public', secret: 'Secret' }, prefix: 'Begins with',
    created: 'Made', used: 'Last used', never: 'Never', revoke: 'Revoke', revokeTitle: 'Revoke this key?', revokeText: (name: string, prefix: string) => `“${name}” (${prefix}…) stops working everywhere within a second.`, made: 'The new key', revoked: 'The key is revoked.',
    change: 'Change', changeNamed: (name: string) => `Change ${name}`, changed: 'The key was changed.', save: 'Save',
    origins: 'Allowed origins', originsHint: 'One per line, such as https://shop.example.com or https://*.example.com. Leave empty for any. Only browsers are restricted.', anyOrigin: 'Any',
    limit: 'Requests per second', limitHint: 'Leave empty to apply the project’s limit alone.',
    emptyTitle: 'No keys yet', emptyText: 'Apps and servers show who they are by a key.', nameHint: 'Where it is used',
    lost: 'A key was made, but the answer that held it was lost, and it is not shown again. Revoke it under API keys, and make another.',
  },
  nextStep: {
    terminal: 'From a terminal', server: 'Or from a server', make: 'Make a public key and show it here', publicKey: 'Keys are shown only once, so the request has none of yours in it yet.', known: 'The public key in it is shown until you leave or reload this page: put it where it is needed.',
    secretKey: 'Put a secret key of the project into $SECRET_KEY. It is shown once, when it is made:', member: 'Use one of the project’s keys. ADMINs make them.',
  },
  team: {
    title: 'Team', email: 'Email', name: 'Name', role: 'Role', roles: { ADMIN: 'Admin', MEMBER: 'Member' }, joined: 'Since', roleHint: 'Members work on content. Keys, channels, the team and the settings are the admins’.', remove: 'Remove', removeTitle: 'Remove from the team?',
    removeText: (email: string) => `${email} no longer gets into this project. Their account stays.`, invites: 'Invitations', invite: 'Invite somebody', status: 'Status', mail: 'Mail', expires: 'Ends', revoke: 'Take it back', revokeTitle: 'Take the invitation back?',
    revokeText: (email: string) => `The link that ${email} was sent stops working.`, noInvites: 'Nobody has been invited.', mails: { none: 'Not mailed', queued: 'On its way', sent: 'Sent', failed: 'Could not be sent' } as Record<string, string>,
    statuses: { PENDING: 'Open', ACCEPTED: 'Accepted', REVOKED: 'Taken back', EXPIRED: 'Ended' } as Record<string, string>, you: '(you)', changed: 'The role is changed.', send: 'Invite', invited: 'The invitation is on its way.', notMailed: 'The invitation was created, but not mailed: this installation has no mail server of its own. Ask its operator for the link (rekindle invite link).', unverified: 'Address not verified', empty: 'Nobody',
  },
};
