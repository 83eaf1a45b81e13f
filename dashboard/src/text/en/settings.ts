export const settings = {
  settings: {
    title: 'Project settings', id: 'Project id', name: 'Name', timezone: 'Timezone', timezoneHint: 'An IANA name, for reports and schedules', rateLimit: 'Requests a second', retention: 'Retention in days', retentionHint: 'Older events, messages and ended runs are deleted. Messages and runs are kept for at least 31 days',
    tracking: 'Tell opens and clicks of mails', identity: 'Public keys must prove who a user is', identityHint: 'By user_hash, made with the identity secret on your server',
    secrets: 'Secrets', webhookSecret: 'Webhook secret', webhookHint: 'Signs what providers and your systems send to POST /webhook', identitySecret: 'Identity secret', show: 'Show', hide: 'Hide', rotate: 'Replace it', rotateTitle: 'Replace the webhook secret?', rotateText: 'The present one goes on being accepted for 24 hours.', rotated: 'The webhook secret is replaced.', previousUntil: 'The one before is accepted until',
    signingSecret: 'Signing secret', signingHint: 'Signs the calls of webhook steps in automations', rotateSigning: 'Rotate signing secret', rotateSigningTitle: 'Rotate the signing secret?', rotateSigningText: 'For 24 hours calls are signed with the current secret, too.', signingRotated: 'The signing secret was rotated.', previousSigningUntil: 'Calls are also signed with the previous secret until',
    danger: 'Delete the project', dangerText: (name: string) => `“${name}” goes for good: its people, events, messages, automations, campaigns and keys. It cannot be undone.`, remove: 'Delete the project', removeTitle: 'Delete this project?', removed: 'The project is deleted.', address: 'Address for webhooks',
  },
  audit: {
    title: 'Audit log', text: 'Who changed what, and when.', action: 'Action', actor: 'Who', resource: 'What', details: 'Details', at: 'When', emptyTitle: 'Nothing yet', emptyText: 'Changes to keys, channels, the team and the settings are kept here.', emptyFiltered: 'No such action.', actionHint: 'In full, such as api_key.created', request: 'Request',
  },
};
