export const automations = {
  automations: {
    title: 'Automations', create: 'Make an automation', name: 'Name', trigger: 'Starts by', active: 'Active', inactive: 'Inactive', steps: 'Steps', updated: 'Changed', version: 'Version', state: 'State',
    emptyTitle: 'No automations yet', emptyText: 'An automation answers what people do: an event starts it, and its steps wait, ask and send.',
    newTitle: 'New automation', activate: 'Activate', deactivate: 'Stop', activated: 'It is active: from now on people come in.', deactivated: 'It has stopped: nobody comes in, and who waits stands still.',
    triggers: { EVENT: 'An event', WEBHOOK: 'An inbound webhook', SEGMENT_ENTER: 'Coming into a segment', SEGMENT_EXIT: 'Leaving a segment', DATE_PROPERTY: 'A date of the person' },
    event: 'Event', webhook: 'Kind of webhook', segment: 'Segment', dateProperty: 'Property with the date', dateOffset: 'Moved by, such as -3d', dateTime: 'At, such as 09:00', dateRepeat: 'Comes', once: 'once', yearly: 'every year',
    filter: 'Only if the event’s properties…', entry: 'Only people for whom…', exit: 'People leave as soon as…', reentry: 'May people come in again?',
    reentries: { once: 'Never', after_exit: 'When they are through', always: 'Every time' },
    goal: 'It has worked when they do', goalWithin: 'Within, such as 30d', goalWhere: 'Only if the properties of what they do…',
    settings: 'Who comes in, and when', flow: 'What happens then',
    runs: 'Runs', remove: (name: string) => `The automation “${name}” goes for good, and whoever is in it leaves.`, removeTitle: 'Delete this automation?', removed: 'The automation is deleted.',
    entered: 'Came in', waiting: 'Waiting', frozen: 'Standing still', completed: 'Through', exited: 'Left early', failed: 'Failed', converted: 'Reached the goal', report: 'How many came how far',
    notYet: 'Nobody has come in yet.', place: 'Step', came: 'Came to it', waits: 'Wait here', did: 'What happened', arms: 'Ways taken',
    simulate: 'Try it with a person', simulateHint: 'The version saved last, with made-up events. Nothing is sent.', simulateUser: 'User id, or empty for nobody in particular', simulateProperties: 'Their properties (JSON)', simulateEvents: 'Events on the way (JSON), such as [{"event": "order_completed", "after": 3600}]', simulateTrigger: 'Properties of the trigger (JSON)',
    simulateGo: 'Try', admitted: 'Comes in.', notAdmitted: 'Does not come in: the filter or the entry rules keep them out.', simulatedEnd: (status: string, reason: string | null) => `Ends as ${status}${reason ? `: ${reason}` : ''}.`,
  },
  steps: {
    add: 'Add a step', addTo: (place: string) => `Add a step to ${place}`, empty: 'Nothing happens here.', up: 'Move up', down: 'Move down', remove: 'Remove', step: (place: string) => `Step ${place}`,
    types: {
      SEND_EMAIL: 'Send an email', SEND_PUSH: 'Send a push', SEND_IN_APP: 'Send an in-app message', SEND_SMS: 'Send an SMS', WAIT: 'Wait', WAIT_UNTIL: 'Wait until', WAIT_FOR_EVENT: 'Wait for an event',
      BRANCH: 'Branch by rules', SPLIT: 'Split by chance', UPDATE_USER: 'Change the profile', TRACK_EVENT: 'Record an event', WEBHOOK: 'Call a webhook', START_AUTOMATION: 'Start another automation', EXIT: 'End here',
    } as Record<string, string>,
    template: 'Template', group: 'Subscription group', delay: 'For, such as 3d, 12h, 15m, or seconds', timeout: 'At most, such as 3d', time: 'Time of day, such as 09:00', property: 'Or a date among the properties', offset: 'Moved by, such as -3d',
    event: 'Event', where: 'Only if its properties…', then: 'If it comes', else: 'If not', otherwise: 'Otherwise', arm: (number: number) => `Way ${number}`, armRules: 'For whom', addArm: 'Add a way', removeArm: 'Remove this way', weight: 'Weight',
    properties: 'Properties (JSON)', url: 'Address (https)', body: 'Body (JSON), empty for the usual one', name: 'Name', nameHint: 'Later steps find what it leaves as steps.<name>', automation: 'Automation', choose: 'Choose…', noTemplates: 'There are none of this channel yet.',
  },
  runs: {
    title: 'Runs', of: (name: string) => `Runs of ${name}`, path: 'Path', person: 'Person', status: 'Status', started: 'Began', ended: 'Ended', where: 'Where', due: 'Until', reason: 'Why', version: 'Version',
    emptyTitle: 'No runs', emptyText: 'A run is one person’s way through. The first begins when the trigger comes while the automation is active.', emptyFiltered: 'None matches these filters.', user: 'User id',
    run: 'Run', trigger: 'What started it', converted: 'Reached the goal', at: 'When', step: 'Step', did: 'What happened', why: 'Why', message: 'Message', noSteps: 'Nothing has happened in it yet.',
  },
};
