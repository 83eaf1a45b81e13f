/** A request that somebody can make from a terminal, and which key it takes. */
export interface Example {
  key: 'public' | 'secret';
  code: (origin: string, key: string) => string;
}

/** A request as a terminal sends it. A key such as `$KEY` is filled in by the shell, so it stands in double quotes. */
function curl(origin: string, path: string, key: string, body: object): string {
  return `curl "${origin}/api/v1${path}" -H "x-api-key: ${key}" -H 'content-type: application/json' \\\n  -d '${JSON.stringify(body)}'`;
}

function example(key: Example['key'], path: string, body: object): Example {
  return { key, code: (origin, known) => curl(origin, path, known, body) };
}

export const IDENTIFY = example('public', '/users/identify', {
  user_id: 'ada',
  properties: { email: 'ada@example.com', name: 'Ada' },
});

/** By each list that may be empty, what puts something into it. */
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
    content: { title: 'Hello', body: 'Good to have you, {{ name }}.' },
  }),
  segment: example('secret', '/segments', {
    name: 'On the free plan',
    rules: [{ field: 'properties.plan', operator: 'eq', value: 'free' }],
  }),
  template: example('secret', '/templates', {
    name: 'Welcome',
    channel: 'EMAIL',
    subject: 'Hello {{ name }}',
    body: '<p>Good to have you.</p>',
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
  news: example('secret', '/news', { title: 'We are open', body: 'Come in.', published: true }),
  suppression: example('secret', '/suppressions', { address: 'ada@example.com', note: 'asked by phone' }),
  group: example('secret', '/subscription-groups', { name: 'Offers' }),
} satisfies Record<string, Example>;

/** Who somebody is and what they did. */
export function firstEvent(origin: string, key: string): string {
  return [IDENTIFY, REQUESTS.event].map(({ code }) => code(origin, key)).join('\n');
}
