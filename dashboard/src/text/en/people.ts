export const people = {
  events: {
    title: 'Events', name: 'Event', user: 'User', at: 'When', properties: 'Properties', filterName: 'Exact name', filterUser: 'User id', search: 'Name contains',
    live: 'Live', liveHint: 'Looks for new events every two seconds', received: 'Received', id: 'Id', shown: 'Event',
    remove: 'Delete the event', removeText: (name: string) => `This event (${name}) goes for good, and is counted no more.`,
    emptyTitle: 'No events', emptyFiltered: 'No event matches these filters.', emptyText: 'Events that are sent to the API, or from here by hand, appear within two seconds. Send a first one.',
    removed: 'The event is deleted.',
  },
  sendEvent: {
    open: 'Send an event', send: 'Send', text: 'As an app or a server would: it is recorded, counted, and starts what waits for it.',
    event: 'Event', eventHint: 'Such as signed_up', user: 'User id', userHint: 'Whoever is not known yet becomes so by it, but nobody knows their address: to mail them, add them as a person first.',
    propertiesHint: 'What else is known of it, such as {"plan": "free"}', sent: (event: string) => `“${event}” is recorded.`,
    accepted: (event: string) => `“${event}” is accepted. It takes a moment until it is recorded.`,
  },
  addPerson: {
    open: 'Add a person', add: 'Add', text: 'As a sign-up would, by hand: to try things out, or for somebody who came another way.',
    userId: 'User id', userIdHint: 'What your own system calls them, such as ada or 4711', taken: 'There is somebody with this id. They are changed on their own page.',
    properties: 'Other properties (JSON)', propertiesHint: 'Such as {"plan": "free", "timezone": "Europe/Paris"}', added: (userId: string) => `${userId} is there.`,
    accepted: (userId: string) => `${userId} is accepted. It takes a moment until they are there.`,
  },
  users: {
    title: 'Users', search: 'Email, name or id', filter: 'Seen', active: 'Within 30 days', inactive: 'Not within 30 days', all: 'All',
    id: 'Id', name: 'Name', email: 'Email', lastSeen: 'Last seen', created: 'First seen', anonymous: 'Anonymous',
    emptyTitle: 'Nobody is here', emptyFiltered: 'Nobody matches this search.', emptyText: 'People appear with their first event or identify call, or are added by hand. Name a first one.',
  },
  person: {
    profile: 'Profile', properties: 'Properties', devices: 'Devices', noDevices: 'No device takes pushes.', registered: 'Registered',
    tabs: { events: 'Timeline', messages: 'Messages', segments: 'Segments', automations: 'Automations', subscriptions: 'Subscriptions' } as Record<string, string>,
    noEvents: 'Nothing has been recorded of this person.', noMessages: 'No message has been sent to this person.',
    edit: 'Edit the profile', merge: 'Properties are merged: a key with null is removed, others stay.',
    erase: 'Erase', eraseTitle: 'Erase this person?',
    eraseText: 'Profile, devices, events, messages and everything on its way to them goes for good, under all their ids. It cannot be undone.',
    erased: 'The person is erased.',
    why: 'Why?', inSegment: 'In', notInSegment: 'Not in', hide: 'Hide', noSegments: 'There are no segments yet.', noAutomations: 'There are no automations yet.',
    noRuns: 'No run', noRunsSoFar: 'No run in the newest automations.', run: 'Run', status: 'Status', automation: 'Automation', segment: 'Segment', member: 'Member',
    subscribed: 'Subscribed', subscribe: 'Subscribe', unsubscribe: 'Unsubscribe', noGroups: 'There are no subscription groups.', group: 'Group', source: 'Chosen', default: 'By default',
    looking: 'All events', internalId: 'Internal id', externalId: 'User id', anonymousId: 'Anonymous id', since: 'First seen', seen: 'Last seen',
  },
};
