/** Who somebody is and what they did, as a terminal sends it. */
export function firstEvent(origin: string, key: string): string {
  const call = (path: string, body: object) => `curl '${origin}/api/v1${path}' -H 'x-api-key: ${key}' -H 'content-type: application/json' \\\n  -d '${JSON.stringify(body)}'`;
  return [
    call('/users/identify', { user_id: 'ada', properties: { email: 'ada@example.com', name: 'Ada' } }),
    call('/events', { event: 'signed_up', user_id: 'ada', properties: { plan: 'free' } }),
  ].join('\n');
}
