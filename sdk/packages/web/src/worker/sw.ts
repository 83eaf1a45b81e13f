import { uuids } from '@rekindle/core';
import { read, recall, write } from './memory';

// The types of a worker and of a page cannot be had at once.
interface Worker {
  addEventListener(type: string, run: (event: Happening) => void): void;
  registration: ServiceWorkerRegistration;
  clients: { matchAll(of: object): Promise<Array<{ url: string; focus(): Promise<unknown>; navigate?(url: string): Promise<unknown> }>>; openWindow(url: string): Promise<unknown> };
  skipWaiting(): Promise<void>;
}
interface Happening {
  waitUntil(work: Promise<unknown>): void;
  data?: { json(): unknown; text(): string };
  notification: Notification;
  newSubscription?: PushSubscription | null;
}

/** A message as the server sends it. */
interface Message {
  title?: string;
  body?: string;
  icon?: string;
  image?: string;
  url?: string;
  messageId?: string;
  data?: Record<string, unknown>;
}

const PENDING = '/rekindle/pending';
const uuid = uuids(Date.now, (bytes) => void crypto.getRandomValues(bytes as Uint8Array<ArrayBuffer>));

/** Shows messages, opens what they point to, and reports both. */
export function serve(worker: Worker): void {
  worker.addEventListener('install', (event) => event.waitUntil(worker.skipWaiting()));
  worker.addEventListener('push', (event) => event.waitUntil(show(worker, event)));
  worker.addEventListener('notificationclick', (event) => event.waitUntil(open(worker, event)));
  worker.addEventListener('pushsubscriptionchange', (event) => event.waitUntil(renew(worker, event)));
}

async function show(worker: Worker, event: Happening): Promise<void> {
  const message = parsed(event);
  // Somebody else's message: their own listener shows it.
  if (!message?.messageId) return;
  await worker.registration.showNotification(message.title ?? '', {
    body: message.body,
    icon: message.icon,
    tag: message.messageId,
    data: { rekindle: message.messageId, url: message.url ?? message.data?.url },
    ...(message.image ? { image: message.image } : {}),
  } as NotificationOptions);
  await report('push_received', message.messageId);
}

async function open(worker: Worker, event: Happening): Promise<void> {
  const data = event.notification.data as { rekindle?: string; url?: string } | undefined;
  if (!data?.rekindle) return;
  event.notification.close();
  await Promise.all([report('push_opened', data.rekindle), visit(worker, data.url ?? '/').catch(() => undefined)]);
}

async function visit(worker: Worker, to: string): Promise<void> {
  const url = new URL(to, worker.registration.scope);
  if (!/^https?:$/.test(url.protocol)) return;
  const windows = await worker.clients.matchAll({ type: 'window', includeUncontrolled: true });
  const there = windows.find((window) => window.url === url.href);
  await (there ? there.focus() : worker.clients.openWindow(url.href));
}

/** The browser has replaced the subscription: the server hears of the new one. */
async function renew(worker: Worker, event: Happening): Promise<void> {
  const who = await recall();
  if (!who) return;
  const key = who.serverKey;
  const subscription =
    event.newSubscription ?? (key ? await worker.registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key }) : null);
  if (!subscription) return;
  const person = who.userId === undefined ? { anonymous_id: who.anonymousId } : { user_id: who.userId, user_hash: who.userHash };
  await post(`${who.apiUrl}/push-tokens`, who.apiKey, { ...person, token: JSON.stringify(subscription), platform: 'WEB' });
}

/** Sends what happened, and what could not be sent before. */
async function report(event: string, messageId: string): Promise<void> {
  const who = await recall();
  if (!who) return;
  const item = {
    type: 'track',
    id: uuid(),
    event,
    timestamp: new Date().toISOString(),
    user_id: who.userId,
    anonymous_id: who.anonymousId,
    user_hash: who.userHash,
    properties: { messageId },
  };
  const batch = [...((await read<unknown[]>(PENDING)) ?? []), item].slice(-100);
  await write(PENDING, batch);
  const sentAt = new Date().toISOString();
  if (await post(`${who.apiUrl}/events/batch`, who.apiKey, { sentAt, batch })) await write(PENDING, []);
}

async function post(url: string, apiKey: string, body: unknown): Promise<boolean> {
  try {
    const headers = { 'content-type': 'application/json', 'x-api-key': apiKey };
    return (await fetch(url, { method: 'POST', headers, body: JSON.stringify(body), credentials: 'omit' })).ok;
  } catch {
    return false;
  }
}

function parsed(event: Happening): Message | undefined {
  try {
    return event.data?.json() as Message;
  } catch {
    return undefined;
  }
}
