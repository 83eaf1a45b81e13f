export const webhooks = {
  webhooks: {
    title: 'Webhooks', text: 'Your systems are told what becomes of messages and runs, signed by the Standard Webhooks scheme.', create: 'Add an endpoint', url: 'Address (https)', description: 'Description', events: 'Told of', enabled: 'Enabled', state: 'State', failing: 'Every call has failed since', disabled: { gone: 'Disabled: it answered 410', failing: 'Disabled: every call failed for five days' } as Record<string, string>,
    emptyTitle: 'No endpoints yet', emptyText: 'An endpoint is an https address of yours that is called when something happens.', edit: 'Edit', remove: (url: string) => `${url} is told nothing any more, and its log goes.`, removeTitle: 'Delete this endpoint?', removed: 'The endpoint is deleted.', secret: 'Its signing secret', secretLost: 'The endpoint was made, but the answer that held its secret was lost: replace the secret on its page.',
    rotate: 'Replace the secret', rotateTitle: 'Replace the signing secret?', rotateText: 'From now on calls are signed with another secret. This one is shown once.', test: 'Send a test call', log: 'Calls', type: 'Of', status: 'Status', attempts: 'Attempts', next: 'Next attempt', created: 'When', noCalls: 'It has not been called yet.', noCallsFiltered: 'None in this state.',
    resend: 'Call again', payload: 'What was sent', response: 'What it answered', took: 'Took', error: 'Error', open: 'Look', ms: (count: number) => `${count} ms`, sentTest: 'The test call is on its way.', resent: 'It is called again.', everything: 'Everything', call: 'Call',
  },
};
