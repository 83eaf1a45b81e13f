import type { BrowserContext } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { adminContext, call, eventually, expectNoBrowserErrors, open, withBrowser } from './browser';
import { MarkupWatch, hostile, short } from './hostile';

withBrowser();
let context: BrowserContext;
const screens: string[] = [];

interface Id {
  id: string;
}

beforeAll(async () => {
  // Markup in every text that can be written with an API key, in the form of an address where one is required.
  const user = short('user');
  await call('POST', '/users/identify', {
    user_id: user,
    properties: {
      email: `${'"<img src=x onerror=window.broken=1>"'}@example.com`,
      name: hostile('name'),
      phone: hostile('phone'),
      timezone: hostile('timezone'),
      [short('key')]: hostile('value'),
      list: [hostile('item')],
    },
  });
  for (const event of ['order_completed', short('event')])
    await call('POST', '/events', {
      event,
      user_id: user,
      properties: { [short('property')]: hostile('property-value'), total: 20 },
    });
  await call('POST', '/push-tokens', { user_id: user, platform: 'ANDROID', token: short('token') });
  const template = await call<Id>('POST', '/templates', {
    name: hostile('template'),
    channel: 'EMAIL',
    subject: hostile('subject').replace('{{7*7}}', '{{ name }}'),
    body: '<p>{{ name }}</p>',
  });
  const rules = [{ field: `properties.${short('key')}`, operator: 'eq', value: hostile('value') }];
  const segment = await call<Id>('POST', '/segments', {
    name: hostile('segment'),
    description: hostile('segment-description'),
    rules,
  });
  const steps = [
    { type: 'WAIT', delay: 1, name: short('step') },
    {
      type: 'BRANCH',
      branches: [{ rules, steps: [{ type: 'SEND_EMAIL', templateId: template.id }] }],
      else: [
        {
          type: 'TRACK_EVENT',
          event: short('tracked'),
          properties: { a: hostile('tracked-value').replace('{{7*7}}', '') },
        },
      ],
    },
  ];
  const automation = await call<Id>('POST', '/automations', {
    name: hostile('automation'),
    triggerType: 'EVENT',
    triggerEvent: 'order_completed',
    active: true,
    steps,
  });
  const campaign = await call<Id>('POST', '/campaigns', {
    name: hostile('campaign'),
    channel: 'EMAIL',
    segmentId: segment.id,
    templateId: template.id,
  });
  await call('POST', '/news', { title: hostile('news'), body: hostile('news-body'), published: true });
  await call('POST', '/subscription-groups', { name: hostile('group'), description: hostile('group-description') });
  await call('POST', '/suppressions', { channel: 'EMAIL', address: 'hostile@example.com', note: hostile('note') });
  await call('POST', '/messages', {
    userId: user,
    channel: 'EMAIL',
    subject: hostile('own-subject').replace('{{7*7}}', ''),
    body: hostile('own-body').replace('{{7*7}}', ''),
  });
  await call('POST', '/events', { event: 'order_completed', user_id: user, properties: { total: 21 } });
  const userId = encodeURIComponent(user);
  const run = await eventually(async () => {
    const { runs } = await call<{ runs: Id[] }>('GET', `/automations/${automation.id}/runs`);
    expect(runs.length).toBeGreaterThan(0);
    return runs[0]?.id ?? '';
  });
  const message = await eventually(async () => {
    const { messages } = await call<{ messages: Id[] }>('GET', `/messages?userId=${userId}`);
    expect(messages.length).toBeGreaterThan(0);
    return messages[0]?.id ?? '';
  });
  screens.push('overview', 'events', `events?search=${encodeURIComponent(short('event'))}`, 'users', `users/${userId}`);
  for (const tab of ['segments', 'automations', 'subscriptions', 'messages', 'devices'])
    screens.push(`users/${userId}?tab=${tab}`);
  screens.push(
    'segments',
    `segments/${segment.id}`,
    'templates',
    `templates/${template.id}`,
    'automations',
    `automations/${automation.id}`,
  );
  for (const view of ['canvas', 'list']) screens.push(`automations/${automation.id}?view=${view}`);
  screens.push(
    `automations/${automation.id}/runs`,
    `automations/${automation.id}/runs/${run}`,
    'campaigns',
    `campaigns/${campaign.id}`,
  );
  screens.push(
    'messages',
    `messages/${message}`,
    'dead-letters',
    'news',
    'channels?tab=devices',
    'suppressions',
    'subscription-groups',
    'audit-log',
  );
  context = await adminContext();
});

afterAll(async () => {
  await context?.close();
});

test('markup is shown as text on every screen', async () => {
  const page = await context.newPage();
  const watch = new MarkupWatch();
  watch.watchDialogs(page);
  for (const screen of screens) {
    await open(page, screen);
    await watch.check(page, screen);
  }
  // The texts were visible, and the page never tried to load or run anything that its policy forbids.
  watch.expectTexts([
    'user',
    'name',
    'event',
    'template',
    'subject',
    'segment',
    'automation',
    'campaign',
    'news',
    'group',
    'note',
  ]);
  expectNoBrowserErrors(context);
  await page.close();
});
