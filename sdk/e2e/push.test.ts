import { type Browser, type BrowserContext, type Page, chromium } from 'playwright-core';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { Rekindle } from '../packages/web/src/index';
import { type Product, startProduct } from './product';
import { Site } from './site';

declare const rekindle: Rekindle;

let product: Product;
let site: Site;
let browser: Browser;
let context: BrowserContext;

beforeAll(async () => {
  product = await startProduct();
  site = await Site.open(product);
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
  context = await browser.newContext();
  await context.grantPermissions(['notifications'], { origin: site.origin });
  // No push service can be reached from a test: the browser's part of subscribing is stood in for, the keys are real.
  await context.addInitScript(() => {
    const text = (bytes: ArrayBuffer) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, '');
    PushManager.prototype.getSubscription = async () => null;
    PushManager.prototype.subscribe = async (options) => {
      const pair = await crypto.subtle.generateKey({ name: 'ECDH', namedCurve: 'P-256' }, true, ['deriveBits']);
      const p256dh = text(await crypto.subtle.exportKey('raw', pair.publicKey));
      const auth = text(crypto.getRandomValues(new Uint8Array(16)).buffer);
      const subscription = { endpoint: `https://push.example.com/${p256dh.slice(-12)}`, expirationTime: null, keys: { p256dh, auth } };
      return { ...subscription, options, toJSON: () => subscription } as unknown as PushSubscription;
    };
  });
}, 180_000);

afterAll(async () => {
  await browser?.close();
  site?.close();
  product?.stop();
}, 60_000);

interface User {
  id: string;
  externalId: string;
  devices: Array<{ platform: string }>;
}

const eventNames = async (user: string) => {
  const { events } = await product.get<{ events: Array<{ eventName: string; properties: { messageId?: string } }> }>(`/events?user=${user}&limit=100`);
  return events.map((event) => `${event.eventName} ${event.properties.messageId ?? ''}`);
};

const devices = async (user: string) => (await product.get<User>(`/users/${user}`)).devices.map((device) => device.platform);

/** Hands the worker a message as a push service would. */
async function deliver(page: Page, message: object): Promise<void> {
  const session = await context.newCDPSession(page);
  const registered = new Promise<string>((done) => {
    session.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
      const ours = registrations.find((each) => each.scopeURL.endsWith('/rekindle-push/'));
      if (ours) done(ours.registrationId);
    });
  });
  await session.send('ServiceWorker.enable');
  await session.send('ServiceWorker.deliverPushMessage', { origin: site.origin, registrationId: await registered, data: JSON.stringify(message) });
  await session.detach();
}

test('subscribed, received, opened, handed to another person, and unlinked', async () => {
  const page = await context.newPage();
  const options = { autoTrackLifecycle: false, autoTrackScreens: false, push: { enabled: true, autoRegister: false } };
  await page.goto(`${site.origin}/shop?with=${encodeURIComponent(JSON.stringify(options))}`);
  await page.waitForFunction(() => rekindle.getAnonymousId?.());
  const subscribed = await page.evaluate(async () => {
    rekindle.identify('push-ada');
    await rekindle.flush();
    return [rekindle.push.isEnabled(), await rekindle.push.requestPermission(), rekindle.push.isEnabled()];
  });
  expect(subscribed).toEqual([false, true, true]);
  await vi.waitFor(async () => expect(await devices('push-ada')).toEqual(['WEB']), { timeout: 10_000 });

  const messageId = '0199f3c1-0000-7000-8000-000000000001';
  await deliver(page, { title: 'Back in stock', body: 'Red shoes', url: '/shoes', messageId });
  await vi.waitFor(async () => expect(await eventNames('push-ada')).toEqual([`push_received ${messageId}`]), { timeout: 10_000 });
  const shown = await page.evaluate(async () => {
    const registration = (await navigator.serviceWorker.getRegistrations()).find((each) => each.scope.endsWith('/rekindle-push/'));
    return (await registration!.getNotifications()).map((each) => [each.title, each.body, each.tag]);
  });
  expect(shown).toEqual([['Back in stock', 'Red shoes', messageId]]);

  const worker = context.serviceWorkers().find((each) => each.url().endsWith('/rekindle-sw.js'))!;
  await worker.evaluate(async () => {
    const scope = globalThis as unknown as { registration: ServiceWorkerRegistration; dispatchEvent(event: Event): void; NotificationEvent: new (type: string, init: object) => Event };
    const [notification] = await scope.registration.getNotifications();
    scope.dispatchEvent(new scope.NotificationEvent('notificationclick', { notification }));
  });
  await vi.waitFor(async () => expect(await eventNames('push-ada')).toContain(`push_opened ${messageId}`), { timeout: 10_000 });

  await page.evaluate(() => rekindle.identify('push-bob'));
  await vi.waitFor(async () => expect(await devices('push-bob').catch(() => [])).toEqual(['WEB']), { timeout: 10_000 });
  expect(await devices('push-ada')).toEqual([]);

  await page.evaluate(() => rekindle.reset());
  await vi.waitFor(async () => expect(await devices('push-bob')).toEqual([]), { timeout: 10_000 });
  expect(await page.evaluate(() => rekindle.push.isEnabled())).toBe(true);

  // A message that is not Rekindle's is left to the site's own worker.
  await deliver(page, { title: 'Not ours' });
  expect(await page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length)).toBe(1);
});
