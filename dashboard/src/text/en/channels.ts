export const channels = {
  channels: {
    secretsCleared: 'The stored password or key was removed because its server or user changed. Enter it again.',
    title: 'Channels', email: 'Email', push: 'Push', sms: 'SMS', inApp: 'In-app', everywhere: 'All channels', configured: 'Set up', notConfigured: 'Not set up',
    inAppText: 'In-app messages need no provider: they go into people’s inboxes, which apps show by GET /inbox.',
    secretKept: 'Never shown. Leave this empty to keep what is stored; type to replace it.', secretEmpty: 'Stored encrypted, and never shown again.', clearText: 'What needs it is not sent until there is another.', clearSecret: (label: string) => `Remove the stored value of “${label}”`,
    last: 'The provider’s last words about this configuration', saved: 'The channel is saved.', provider: 'Provider', none: 'None', fallback: 'When it is down', from: 'Sender’s address', fromName: 'Sender’s name',
    apiKey: 'Provider’s API key', host: 'SMTP host', port: 'Port', user: 'User name', password: 'Password', security: 'Encryption', byDefault: 'By default (STARTTLS)', securities: { starttls: 'STARTTLS', tls: 'TLS', none: 'None' } as Record<string, string>,
    providers: { MAILPROVIDER: 'Mail provider (by HTTP)', SMTP: 'SMTP' } as Record<string, string>,
    gateway: 'Android: server key, or a service account’s JSON', keyId: 'iOS: key id', teamId: 'iOS: team id', privateKey: 'iOS: private key (.p8)', bundleId: 'iOS: bundle id', environment: 'iOS: environment', production: 'Production', sandbox: 'Sandbox',
    appId: 'Push provider: app id', restKey: 'Push provider: REST key', shared: 'Pushes can also go by the app that all projects of this installation share.',
    accountId: 'Account id', token: 'Auth token', number: 'Sender’s number',
    checklist: 'If iOS pushes fail', checks: [
      'InvalidProviderToken: key id, team id and private key do not belong together. All three come from the same key of the same team; the private key is the whole .p8 file, with its first and last line.',
      'BadDeviceToken: the token is of the other environment. An app run from Xcode registers with the sandbox; TestFlight and the App Store with production.',
      'DeviceTokenNotForTopic: the bundle id is another app’s.',
      'Unregistered: the app was removed from the device; the token is then forgotten by itself.',
    ],
    test: 'Send a test', testTo: 'To', testToHint: { email: 'An email address', sms: 'A number such as +15551234567' }, testUser: 'To user', testUserHint: 'A user id; to their devices or inbox', testSend: 'Send the test',
    took: 'The provider took it.', refused: 'It was not taken.', advice: 'What to do', openMessage: 'Open the message',
    quiet: 'Quiet hours', quietHint: 'Nothing of campaigns and automations is sent in them, but in-app messages: it waits.', quietOn: 'Keep quiet hours', start: 'From', end: 'To', zone: 'Of which clock', zoneHint: '“user” is each person’s own',
    cap: 'Frequency cap', capHint: 'Limits messages of campaigns and automations to each user, and to each email address and phone number. It counts messages sent since it was set.', capOn: 'Limit how often', capMax: 'Messages', capWithin: 'Within, such as 7d',
    recipients: 'Recipients', knownUsersOnly: 'Send email and SMS of campaigns and automations to known users only', knownUsersOnlyHint: 'Users without an external ID are skipped: their address came from a browser and is not verified.',
  },
  devices: {
    title: 'Devices', text: 'The devices that people have registered for pushes. One whose provider says that the app is gone leaves the list by itself.', platform: 'Platform', platforms: { IOS: 'iOS', ANDROID: 'Android', WEB: 'Web' }, person: 'Person', user: 'User id',
    since: 'Since', seen: 'Registered last', nobody: 'unknown', emptyTitle: 'No devices yet', emptyText: 'An app registers its device once its user allows notifications.', emptyFiltered: 'None matches these filters.', snippet: 'In the app, or from a terminal',
  },
  groups: {
    title: 'Subscription groups', text: 'What people can choose to get, on the preference page of every mail.', create: 'Make a group', name: 'Name', description: 'Description', descriptionHint: 'Shown on the preference page', isDefault: 'Sent to whoever has not chosen', isPublic: 'Shown on the preference page',
    emptyTitle: 'No groups yet', emptyText: 'Without groups an unsubscription is from everything. Make one for each kind of message.', remove: (name: string) => `The group “${name}” goes for good, with everybody’s choice of it.`, removeTitle: 'Delete this group?', edit: 'Edit the group',
  },
  suppressions: {
    title: 'Suppressions', text: 'Addresses that nothing is sent to, and why.', channel: 'Channel', address: 'Address', addressHint: 'In full', reason: 'Reason', note: 'Note', since: 'Since', add: 'Put an address on the list', user: 'User', lift: 'Take off',
    liftTitle: 'Take it off the list?', liftText: (address: string, reason: string) => `${address} (${reason}) is sent to again.`, emptyTitle: 'Nobody is on the list', emptyText: 'Bounces, complaints and unsubscriptions put addresses here by themselves.', emptyFiltered: 'None matches these filters.',
  },
};
