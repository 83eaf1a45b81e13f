/** A sample request for a terminal, and the type of API key that it needs. */
export interface Example {
  key: 'public' | 'secret';
  code: (origin: string, key: string) => string;
}

/** Formats a request as a curl command. The key is in double quotes so that the shell can expand a variable such as `$KEY`. */
function curl(origin: string, path: string, key: string, body: object): string {
  return `curl "${origin}/api/v1${path}" -H "x-api-key: ${key}" -H 'content-type: application/json' \\\n  -d '${JSON.stringify(body)}'`;
}

function example(key: Example['key'], path: string, body: object): Example {
  return { key, code: (origin, value) => curl(origin, path, value, body) };
}

export const IDENTIFY = example('public', '/users/identify', {
  user_id: 'ada',
  properties: { email: 'ada@example.com', name: 'Ada' },
});

/** For each list that can be empty, a request that adds an entry. */
export const REQUESTS = {
  user: IDENTIFY,
  event: example('public', '/events', { event: 'signed_up', user_id: 'ada', properties: { plan: 'free' } }),
  device: example('public', '/push-tokens', {
    user_id: 'ada',
    platform: 'ANDROID',
    token: 'the-token-that-the-system-gave-the-app',
  }),
  message: example('secret', '/messages', {
    userId: 'ada',
    channel: 'IN_APP',
    content: { title: 'Hello', body: 'Welcome, {{ name }}.' },
  }),
  segment: example('secret', '/segments', {
    name: 'On the free plan',
    rules: [{ field: 'properties.plan', operator: 'eq', value: 'free' }],
  }),
  template: example('secret', '/templates', {
    name: 'Welcome',
    channel: 'EMAIL',
    subject: 'Hello {{ name }}',
    body: '<p>Welcome.</p>',
  }),
  automation: example('secret', '/automations', {
    name: 'Welcome',
    triggerType: 'EVENT',
    triggerEvent: 'signed_up',
    steps: [{ type: 'UPDATE_USER', properties: { welcomed: true } }],
  }),
  campaign: example('secret', '/campaigns', {
    name: 'News',
    channel: 'EMAIL',
    segmentId: 'ID_OF_A_SEGMENT',
    templateId: 'ID_OF_A_TEMPLATE',
  }),
  news: example('secret', '/news', { title: 'We are open', body: 'Visit our new shop.', published: true }),
  suppression: example('secret', '/suppressions', { address: 'ada@example.com', note: 'requested by phone' }),
  group: example('secret', '/subscription-groups', { name: 'Offers' }),
} satisfies Record<string, Example>;

/** Returns the requests that identify a user and send that user's first event. */
export function firstEvent(origin: string, key: string): string {
  return [IDENTIFY, REQUESTS.event].map(({ code }) => code(origin, key)).join('\n');
}
