import { uuids } from '@rekindle/core';
import { recall, remember } from './memory';
import { post, report } from './report';

// The types of workers and pages cannot be used together.
interface Worker {
  addEventListener(type: string, run: (event: WorkerEvent) => void): void;
  registration: ServiceWorkerRegistration;
  clients: {
    matchAll(
      of: object,
    ): Promise<Array<{ url: string; focus(): Promise<unknown>; navigate?(url: string): Promise<unknown> }>>;
    openWindow(url: string): Promise<unknown>;
  };
}
interface WorkerEvent {
  waitUntil(work: Promise<unknown>): void;
  data?: { json(): unknown; text(): string };
  notification: Notification;
  newSubscription?: PushSubscription | null;
}

/** A message from the server. */
interface Message {
  title?: string;
  body?: string;
  icon?: string;
  image?: string;
  url?: string;
  messageId?: string;
  data?: Record<string, unknown>;
}

const uuid = uuids(Date.now, (bytes) => void crypto.getRandomValues(bytes as Uint8Array<ArrayBuffer>));

/** Shows messages, opens their links, and reports both. */
export function serve(worker: Worker): void {
  worker.addEventListener('push', (event) => event.waitUntil(show(worker, event)));
  worker.addEventListener('notificationclick', (event) => event.waitUntil(open(worker, event)));
  worker.addEventListener('pushsubscriptionchange', (event) => event.waitUntil(renew(worker, event)));
}

async function show(worker: Worker, event: WorkerEvent): Promise<void> {
  const message = parsed(event);
  // Not from Rekindle: the site's own listener shows it.
  if (!message?.messageId) return;
  await worker.registration.showNotification(message.title ?? '', {
    body: message.body,
    icon: message.icon,
    tag: message.messageId,
    data: { rekindle: message.messageId, url: message.url ?? message.data?.url },
    ...(message.image ? { image: message.image } : {}),
  } as NotificationOptions);
  await report(uuid(), 'push_received', message.messageId);
}

async function open(worker: Worker, event: WorkerEvent): Promise<void> {
  const data = event.notification.data as { rekindle?: string; url?: string } | undefined;
  if (!data?.rekindle) return;
  event.notification.close();
  await Promise.all([
    report(uuid(), 'push_opened', data.rekindle),
    visit(worker, data.url ?? '/').catch(() => undefined),
  ]);
}

async function visit(worker: Worker, to: string): Promise<void> {
  const url = new URL(to, worker.registration.scope);
  if (!/^https?:$/.test(url.protocol)) return;
  const windows = await worker.clients.matchAll({ type: 'window', includeUncontrolled: true });
  const existing = windows.find((window) => window.url === url.href);
  await (existing ? existing.focus() : worker.clients.openWindow(url.href));
}

/** Called when the browser has replaced the subscription: sends the new one to the server, and stores it for the next page. */
async function renew(worker: Worker, event: WorkerEvent): Promise<void> {
  const who = await recall();
  if (!who) return;
  const key = who.serverKey;
  const subscription =
    event.newSubscription ??
    (key
      ? await worker.registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key })
      : null);
  if (!subscription) return;
  const token = JSON.stringify(subscription);
  await remember({ token });
  if (who.unlinked) return;
  const user =
    who.userId === undefined ? { anonymous_id: who.anonymousId } : { user_id: who.userId, user_hash: who.userHash };
  // The next page sends it again if this fails.
  await post(`${who.apiUrl}/push-tokens`, who, { ...user, token, platform: 'WEB' }).catch(() => undefined);
}

function parsed(event: WorkerEvent): Message | undefined {
  try {
    return event.data?.json() as Message;
  } catch {
    return undefined;
  }
}
