import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import type { Rekindle } from '../packages/web/src/index';
import { launch, waited } from './fixture';
import { type Product, startProduct } from './product';
import { PushService, type Subscription } from './push-service';
import { Site, loaded } from './site';

declare const rekindle: Rekindle;

let product: Product;
let service: PushService;
let site: Site;
let browser: Browser;
let context: BrowserContext;
let page: Page;
/** Subscriptions of browsers, the newest last. */
const subscriptions: Subscription[] = [];

beforeAll(async () => {
  service = await PushService.open();
  product = await startProduct({ OUTBOUND_CA_FILE: service.authority });
  site = await Site.open(product);
  browser = await launch();
}, 180_000);

beforeEach(async () => {
  context = await browser.newContext();
  await context.grantPermissions(['notifications'], { origin: site.origin });
  // Browsers use their vendor's push service, which tests cannot reach; this one replaces it.
  await context.exposeFunction('newSubscription', () => {
    subscriptions.push(service.subscribe());
    return subscriptions.at(-1);
  });
  await context.addInitScript(() => {
    const { newSubscription } = globalThis as unknown as { newSubscription(): Promise<object> };
    PushManager.prototype.getSubscription = async () => null;
    PushManager.prototype.subscribe = async (options) => {
      const subscription = await newSubscription();
      return { ...subscription, options, toJSON: () => subscription } as unknown as PushSubscription;
    };
  });
  page = await context.newPage();
});

afterEach(() => context.close());

afterAll(async () => {
  await browser?.close();
  site?.close();
  product?.stop();
  service?.close();
}, 60_000);

interface User {
  id: string;
  externalId: string;
  devices: Array<{ platform: string }>;
}

const eventNames = async (user: string) => {
  const { events } = await product.get<{ events: Array<{ eventName: string; properties: { messageId?: string } }> }>(
    `/events?user=${user}&limit=100`,
  );
  return events.map((event) => `${event.eventName} ${event.properties.messageId ?? ''}`);
};

const devices = async (user: string) =>
  (await product.get<User>(`/users/${user}`)).devices.map((device) => device.platform);

/** Delivers a message to the worker as a push service does. */
async function deliver(page: Page, message: object, scope = '/rekindle-push/'): Promise<void> {
  const session = await context.newCDPSession(page);
  const registered = new Promise<string>((done) => {
    session.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
      const ours = registrations.find((each) => each.scopeURL === site.origin + scope);
      if (ours) done(ours.registrationId);
    });
  });
  await session.send('ServiceWorker.enable');
  await session.send('ServiceWorker.deliverPushMessage', {
    origin: site.origin,
    registrationId: await registered,
    data: JSON.stringify(message),
  });
  await session.detach();
}

/** Sends a message to the user. Returns it as the browser of the subscription receives it. */
async function sendMessage(to: Subscription, user: string, title: string): Promise<Record<string, unknown>> {
  const before = service.received(to).length;
  await product.post('/messages', { userId: user, channel: 'PUSH', content: { title, body: 'Red shoes' } });
  return vi.waitFor(() => {
    expect(service.received(to).length).toBe(before + 1);
    return service.received(to).at(-1)!;
  }, waited);
}

test('a subscription receives encrypted messages, is replaced, moves to another user, and is unlinked', async () => {
  const options = { autoTrackLifecycle: false, autoTrackScreens: false, push: { enabled: true, autoRegister: false } };
  await page.goto(`${site.origin}/shop?with=${encodeURIComponent(JSON.stringify(options))}`);
  await loaded(page);
  const subscribed = await page.evaluate(async () => {
    rekindle.identify('push-ada');
    await rekindle.flush();
    return [rekindle.push.isEnabled(), await rekindle.push.requestPermission(), rekindle.push.isEnabled()];
  });
  expect(subscribed).toEqual([false, true, true]);
  await vi.waitFor(async () => expect(await devices('push-ada')).toEqual(['WEB']), waited);

  const message = await sendMessage(subscriptions[0]!, 'push-ada', 'Back in stock');
  const messageId = String(message.messageId);
  expect(message).toEqual({ title: 'Back in stock', body: 'Red shoes', messageId });
  await deliver(page, { ...message, url: '/shoes' });
  await vi.waitFor(async () => expect(await eventNames('push-ada')).toEqual([`push_received ${messageId}`]), waited);
  const shown = await page.evaluate(async () => {
    const registration = (await navigator.serviceWorker.getRegistrations()).find((each) =>
      each.scope.endsWith('/rekindle-push/'),
    );
    return (await registration!.getNotifications()).map((each) => [each.title, each.body, each.tag]);
  });
  expect(shown).toEqual([['Back in stock', 'Red shoes', messageId]]);

  const worker = context.serviceWorkers().find((each) => each.url().endsWith('/rekindle-sw.js'))!;
  const opened = await worker.evaluate(async () => {
    const scope = globalThis as unknown as {
      registration: ServiceWorkerRegistration;
      clients: { openWindow(url: string): Promise<unknown> };
      dispatchEvent(event: Event): void;
      NotificationEvent: new (type: string, init: object) => Event;
    };
    const [notification] = await scope.registration.getNotifications();
    return new Promise<string>((done) => {
      // Only a real click may open a window.
      scope.clients.openWindow = async (url) => done(url);
      scope.dispatchEvent(new scope.NotificationEvent('notificationclick', { notification }));
    });
  });
  expect(opened).toBe(`${site.origin}/shoes`);
  await vi.waitFor(async () => expect(await eventNames('push-ada')).toContain(`push_opened ${messageId}`), waited);

  // The browser replaces the subscription while no page is active.
  const replaced = service.subscribe();
  service.end(subscriptions[0]!);
  await worker.evaluate((replaced) => {
    const scope = globalThis as unknown as {
      dispatchEvent(event: Event): void;
      ExtendableEvent: new (type: string) => Event;
    };
    const event = new scope.ExtendableEvent('pushsubscriptionchange');
    scope.dispatchEvent(Object.assign(event, { newSubscription: replaced }));
  }, replaced);
  await vi.waitFor(async () => expect(await devices('push-ada')).toEqual(['WEB', 'WEB']), waited);
  await sendMessage(replaced, 'push-ada', 'To the new one');
  await vi.waitFor(async () => expect(await devices('push-ada')).toEqual(['WEB']), waited);

  // The page uses the new one after the reload.
  await page.reload();
  await loaded(page);
  const endpoint = () =>
    page.evaluate(() => Object.values(localStorage).find((text) => text.includes('endpoint')) ?? '');
  await vi.waitFor(async () => expect(await endpoint()).toContain(new URL(replaced.endpoint).pathname), waited);
  expect(await page.evaluate(() => rekindle.push.optOut())).toBe(true);
  await vi.waitFor(async () => expect(await devices('push-ada')).toEqual([]), waited);
  expect(
    await page.evaluate(async () => [
      rekindle.push.isEnabled(),
      await rekindle.push.optIn(),
      rekindle.push.isEnabled(),
    ]),
  ).toEqual([false, true, true]);
  await vi.waitFor(async () => expect(await devices('push-ada')).toEqual(['WEB']), waited);

  await page.evaluate(() => rekindle.identify('push-bob'));
  await vi.waitFor(async () => expect(await devices('push-bob').catch(() => [])).toEqual(['WEB']), waited);
  expect(await devices('push-ada')).toEqual([]);
  await sendMessage(replaced, 'push-bob', 'For Bob');

  await page.evaluate(() => rekindle.reset());
  await vi.waitFor(async () => expect(await devices('push-bob')).toEqual([]), waited);
  expect(await page.evaluate(() => rekindle.push.isEnabled())).toBe(true);

  // Messages that are not from Rekindle are left to the site's own worker.
  await deliver(page, { title: 'Not ours' });
  await deliver(page, { title: 'Ours again', messageId: 'behind' });
  const titles = () =>
    page.evaluate(async () => {
      const registration = (await navigator.serviceWorker.getRegistrations()).find((each) =>
        each.scope.endsWith('/rekindle-push/'),
      );
      return (await registration!.getNotifications()).map((each) => each.title);
    });
  await vi.waitFor(async () => expect(await titles()).toContain('Ours again'), waited);
  expect(await titles()).not.toContain('Not ours');
  expect(await page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length)).toBe(1);
});

test('if the user has granted permission, a page subscribes automatically, but not after an opt-out', async () => {
  await context.addInitScript(() => {
    const { register } = ServiceWorkerContainer.prototype;
    Object.assign(globalThis, { registered: 0 });
    ServiceWorkerContainer.prototype.register = function (...args) {
      (globalThis as unknown as { registered: number }).registered++;
      return register.apply(this, args);
    };
  });
  const registered = () => page.evaluate(() => (globalThis as unknown as { registered: number }).registered);
  await page.goto(
    `${site.origin}/shop?with=${encodeURIComponent(JSON.stringify({ autoTrackLifecycle: false, autoTrackScreens: false, push: { enabled: true } }))}`,
  );
  await loaded(page);
  await page.evaluate(() => rekindle.identify('push-eve'));
  await vi.waitFor(async () => expect(await devices('push-eve').catch(() => [])).toEqual(['WEB']), waited);
  expect([await registered(), await page.evaluate(() => rekindle.push.isEnabled())]).toEqual([1, true]);
  expect(await page.evaluate(() => rekindle.push.optOut())).toBe(true);
  await page.reload();
  await loaded(page);
  // A registration would have started while the page was loading.
  expect([await registered(), await page.evaluate(() => rekindle.push.isEnabled())]).toEqual([0, false]);
  expect(await devices('push-eve')).toEqual([]);
});

test('a subscription created elsewhere and the site’s own worker that imports ours both work', async () => {
  const push = { enabled: true, autoRegister: false, serviceWorker: '/own-worker.js', scope: '/' };
  await page.goto(
    `${site.origin}/shop?with=${encodeURIComponent(JSON.stringify({ autoTrackLifecycle: false, autoTrackScreens: false, push }))}`,
  );
  await loaded(page);
  const external = service.subscribe();
  await page.evaluate(async (external) => {
    rekindle.identify('push-cid');
    await rekindle.push.registerToken(JSON.stringify(external));
  }, external);
  await vi.waitFor(async () => expect(await devices('push-cid').catch(() => [])).toEqual(['WEB']), waited);
  service.end(external);
  expect(await page.evaluate(() => rekindle.push.subscribe())).toBe(true);
  await vi.waitFor(async () => expect(await devices('push-cid')).toEqual(['WEB', 'WEB']), waited);
  const message = await sendMessage(subscriptions.at(-1)!, 'push-cid', 'By the own worker');
  await deliver(page, message, '/');
  await vi.waitFor(
    async () => expect(await eventNames('push-cid')).toEqual([`push_received ${String(message.messageId)}`]),
    waited,
  );
});
