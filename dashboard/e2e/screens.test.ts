import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  adminContext,
  call,
  eventually,
  expectAccessible,
  expectNoComplaints,
  newContext,
  open,
  picture,
  product,
  settled,
  turnDark,
  withBrowser,
} from './browser';

withBrowser();
let context: BrowserContext;
const made: Record<string, string> = {};

interface Id {
  id: string;
}

beforeAll(async () => {
  // One of everything, so that no screen is only its empty state. A name of `<script>` is a name.
  const script = '<script>alert(1)</script>';
  await call('POST', '/users/identify', {
    user_id: 'bo',
    properties: { email: 'bo@example.com', name: script, plan: 'pro', cart: { total: 12.5 } },
  });
  for (const event of ['app_opened', 'order_completed', script])
    await call('POST', '/events', { event, user_id: 'bo', properties: { total: 12.5 } });
  made.template = (
    await call<Id>('POST', '/templates', {
      name: script,
      channel: 'EMAIL',
      subject: 'Hi',
      body: '<p>Hi {{ name }}</p>',
    })
  ).id;
  await call('POST', '/templates', { name: 'Short', channel: 'SMS', subject: '', body: 'Hi' }).catch(() => null);
  made.segment = (
    await call<Id>('POST', '/segments', {
      name: script,
      rules: [
        {
          any: [
            { field: 'properties.plan', operator: 'eq', value: 'pro' },
            { field: 'event:order_completed', operator: 'did', value: { count: { gte: 2 }, within: '30d' } },
          ],
        },
        { not: { field: 'email', operator: 'not_exists' } },
      ],
    })
  ).id;
  const steps = [
    { type: 'WAIT', delay: 1 },
    {
      type: 'BRANCH',
      branches: [
        {
          rules: [{ field: 'properties.plan', operator: 'eq', value: 'pro' }],
          steps: [{ type: 'SEND_EMAIL', templateId: made.template }],
        },
      ],
      else: [{ type: 'EXIT' }],
    },
  ];
  made.automation = (
    await call<Id>('POST', '/automations', {
      name: script,
      triggerType: 'EVENT',
      triggerEvent: 'order_completed',
      active: true,
      steps,
    })
  ).id;
  made.campaign = (
    await call<Id>('POST', '/campaigns', {
      name: script,
      channel: 'EMAIL',
      segmentId: made.segment,
      templateId: made.template,
    })
  ).id;
  await call('POST', '/news', { title: script, body: 'News', published: true });
  await call('POST', '/subscription-groups', { name: 'Offers' });
  await call('POST', '/push-tokens', { user_id: 'bo', platform: 'IOS', token: 'a-device-of-bo' });
  await call('POST', '/suppressions', { channel: 'EMAIL', address: 'gone@example.com', note: 'asked by mail' });
  await call('POST', '/events', { event: 'order_completed', user_id: 'bo', properties: { total: 20 } });
  made.run = await eventually(async () => {
    const { runs } = await call<{ runs: Id[] }>('GET', `/automations/${made.automation}/runs`);
    expect(runs.length).toBeGreaterThan(0);
    return runs[0]?.id ?? '';
  });
  made.message = await eventually(async () => {
    const { messages } = await call<{ messages: Id[] }>('GET', '/messages?userId=bo');
    expect(messages.length).toBeGreaterThan(0);
    return messages[0]?.id ?? '';
  });
  context = await adminContext();
});

afterAll(async () => {
  await context?.close();
});

const SCREENS: Array<[string, () => string]> = [
  ['overview', () => 'overview'],
  ['events', () => 'events'],
  ['users', () => 'users'],
  ['person', () => 'users/bo'],
  ['person-segments', () => 'users/bo?tab=segments'],
  ['person-automations', () => 'users/bo?tab=automations'],
  ['person-subscriptions', () => 'users/bo?tab=subscriptions'],
  ['segments', () => 'segments'],
  ['segment', () => `segments/${made.segment}`],
  ['segment-new', () => 'segments/new'],
  ['templates', () => 'templates'],
  ['template', () => `templates/${made.template}`],
  ['automations', () => 'automations'],
  ['automation', () => `automations/${made.automation}`],
  ['automation-canvas', () => `automations/${made.automation}?view=canvas`],
  ['automation-list', () => `automations/${made.automation}?view=list`],
  ['automation-new', () => 'automations/new'],
  ['runs', () => `automations/${made.automation}/runs`],
  ['run', () => `automations/${made.automation}/runs/${made.run}`],
  ['campaigns', () => 'campaigns'],
  ['campaign', () => `campaigns/${made.campaign}`],
  ['campaign-new', () => 'campaigns/new'],
  ['messages', () => 'messages'],
  ['message', () => `messages/${made.message}`],
  ['dead-letters', () => 'dead-letters'],
  ['news', () => 'news'],
  ['channels', () => 'channels'],
  ['devices', () => 'channels?tab=devices'],
  ['suppressions', () => 'suppressions'],
  ['subscription-groups', () => 'subscription-groups'],
  ['api-keys', () => 'api-keys'],
  ['team', () => 'team'],
  ['webhooks', () => 'webhooks'],
  ['settings', () => 'settings'],
  ['audit-log', () => 'audit-log'],
];

describe.each(SCREENS)('%s', (name, path) => {
  test('is there for everybody, in light and in dark, also on a phone', async () => {
    const page = await context.newPage();
    await open(page, path());
    await expect(page.getByRole('alert').allInnerTexts()).resolves.toEqual([]);
    await expectAccessible(page, name);
    await picture(page, name);
    await turnDark(page);
    await expectAccessible(page, `${name}, dark`);
    await page.setViewportSize({ width: 390, height: 844 });
    await settled(page);
    await eventually(async () => expect(await standingOut(page), 'what stands out at 390 pixels').toEqual([]));
    await picture(page, `${name}-phone-dark`);
    await page.close();
    expectNoComplaints(context);
  });
});

/** What makes a page wider than its window; nothing where it is not. */
function standingOut(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const { clientWidth, scrollWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return [];
    const wide = [...document.querySelectorAll('main *')].filter(
      (element) => element.getBoundingClientRect().right > clientWidth && !element.closest('[role="region"]'),
    );
    return [`${scrollWidth - clientWidth} px`, ...wide.map((element) => element.outerHTML.slice(0, 120))];
  });
}

test('screens before a project are accessible, too', async () => {
  const stranger = await newContext({ viewport: { width: 390, height: 844 } });
  const page = await stranger.newPage();
  for (const [name, address] of [
    ['sign-in', '/sign-in'],
    ['accept-invite', '/accept-invite?token=x'],
  ] as const) {
    await page.goto(product.origin + address);
    await settled(page);
    await expectAccessible(page, name);
    await picture(page, name);
  }
  expectNoComplaints(stranger);
  await stranger.close();
  const admin = await context.newPage();
  for (const address of ['/new-project', '/account']) {
    await admin.goto(product.origin + address);
    await settled(admin);
    await expectAccessible(admin, address);
  }
  await admin.close();
});
