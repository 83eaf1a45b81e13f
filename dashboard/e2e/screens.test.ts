import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  adminContext,
  call,
  eventually,
  expectAccessible,
  expectNoBrowserErrors,
  newContext,
  open,
  screenshot,
  product,
  settled,
  turnDark,
  withBrowser,
} from './browser';

withBrowser();
let context: BrowserContext;
const created: Record<string, string> = {};

interface Id {
  id: string;
}

beforeAll(async () => {
  // One record of each kind, so that no screen shows only its empty state. Names contain `<script>`, which must be shown as text.
  const script = '<script>alert(1)</script>';
  await call('POST', '/users/identify', {
    user_id: 'bo',
    properties: { email: 'bo@example.com', name: script, plan: 'pro', cart: { total: 12.5 } },
  });
  for (const event of ['app_opened', 'order_completed', script])
    await call('POST', '/events', { event, user_id: 'bo', properties: { total: 12.5 } });
  created.template = (
    await call<Id>('POST', '/templates', {
      name: script,
      channel: 'EMAIL',
      subject: 'Hi',
      body: '<p>Hi {{ name }}</p>',
    })
  ).id;
  await call('POST', '/templates', { name: 'Short', channel: 'SMS', subject: '', body: 'Hi' }).catch(() => null);
  created.segment = (
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
          steps: [{ type: 'SEND_EMAIL', templateId: created.template }],
        },
      ],
      else: [{ type: 'EXIT' }],
    },
  ];
  created.automation = (
    await call<Id>('POST', '/automations', {
      name: script,
      triggerType: 'EVENT',
      triggerEvent: 'order_completed',
      active: true,
      steps,
    })
  ).id;
  created.campaign = (
    await call<Id>('POST', '/campaigns', {
      name: script,
      channel: 'EMAIL',
      segmentId: created.segment,
      templateId: created.template,
    })
  ).id;
  await call('POST', '/news', { title: script, body: 'News', published: true });
  await call('POST', '/subscription-groups', { name: 'Offers' });
  await call('POST', '/push-tokens', { user_id: 'bo', platform: 'IOS', token: 'a-device-of-bo' });
  await call('POST', '/suppressions', { channel: 'EMAIL', address: 'gone@example.com', note: 'requested by email' });
  await call('POST', '/events', { event: 'order_completed', user_id: 'bo', properties: { total: 20 } });
  created.run = await eventually(async () => {
    const { runs } = await call<{ runs: Id[] }>('GET', `/automations/${created.automation}/runs`);
    expect(runs.length).toBeGreaterThan(0);
    return runs[0]?.id ?? '';
  });
  created.message = await eventually(async () => {
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
  ['user', () => 'users/bo'],
  ['user-segments', () => 'users/bo?tab=segments'],
  ['user-automations', () => 'users/bo?tab=automations'],
  ['user-subscriptions', () => 'users/bo?tab=subscriptions'],
  ['segments', () => 'segments'],
  ['segment', () => `segments/${created.segment}`],
  ['segment-new', () => 'segments/new'],
  ['templates', () => 'templates'],
  ['template', () => `templates/${created.template}`],
  ['automations', () => 'automations'],
  ['automation', () => `automations/${created.automation}`],
  ['automation-canvas', () => `automations/${created.automation}?view=canvas`],
  ['automation-list', () => `automations/${created.automation}?view=list`],
  ['automation-new', () => 'automations/new'],
  ['runs', () => `automations/${created.automation}/runs`],
  ['run', () => `automations/${created.automation}/runs/${created.run}`],
  ['campaigns', () => 'campaigns'],
  ['campaign', () => `campaigns/${created.campaign}`],
  ['campaign-new', () => 'campaigns/new'],
  ['messages', () => 'messages'],
  ['message', () => `messages/${created.message}`],
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
  test('is accessible in light and dark mode and fits a phone screen', async () => {
    const page = await context.newPage();
    await open(page, path());
    await expect(page.getByRole('alert').allInnerTexts()).resolves.toEqual([]);
    await expectAccessible(page, name);
    await screenshot(page, name);
    await turnDark(page);
    await expectAccessible(page, `${name}, dark`);
    await page.setViewportSize({ width: 390, height: 844 });
    await settled(page);
    await eventually(async () => expect(await overflowingElements(page), 'elements wider than 390 pixels').toEqual([]));
    await screenshot(page, `${name}-phone-dark`);
    await page.close();
    expectNoBrowserErrors(context);
  });
});

/** Returns the elements that make a page wider than the viewport. */
function overflowingElements(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const { clientWidth, scrollWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return [];
    const wide = [...document.querySelectorAll('main *')].filter(
      (element) => element.getBoundingClientRect().right > clientWidth && !element.closest('[role="region"]'),
    );
    return [`${scrollWidth - clientWidth} px`, ...wide.map((element) => element.outerHTML.slice(0, 120))];
  });
}

test('screens outside a project are accessible', async () => {
  const visitor = await newContext({ viewport: { width: 390, height: 844 } });
  const page = await visitor.newPage();
  for (const [name, path] of [
    ['sign-in', '/sign-in'],
    ['accept-invite', '/accept-invite?token=x'],
  ] as const) {
    await page.goto(product.origin + path);
    await settled(page);
    await expectAccessible(page, name);
    await screenshot(page, name);
  }
  expectNoBrowserErrors(visitor);
  await visitor.close();
  const admin = await context.newPage();
  for (const path of ['/new-project', '/account']) {
    await admin.goto(product.origin + path);
    await settled(admin);
    await expectAccessible(admin, path);
  }
  await admin.close();
});
