import { type Client, PushLink, sendRequest } from '@rekindle/core';
import { type Remembered, pending, recall, remember } from './worker/memory';

export interface WebPushOptions {
  /** Default: false. */
  enabled?: boolean;
  /** Subscribes at `init` if the user has granted permission before. Default: true. */
  autoRegister?: boolean;
  /** Path of the service worker on your site. Default: `/rekindle-sw.js`. */
  serviceWorker?: string;
  /** Its scope, different from that of your own worker. Default: `/rekindle-push/`. If you use your own worker: its scope. */
  scope?: string;
}

/** Web push of this browser. */
export class WebPush {
  private readonly link: PushLink;

  constructor(
    private readonly client: Client,
    private readonly options: WebPushOptions,
  ) {
    this.link = new PushLink(client);
    const update = () => void this.shareUser();
    client.on('identify', update);
    client.on('changed', update);
    client.on('reset', () => setTimeout(update));
    if ((options.enabled || client.identity.get().push) && typeof caches !== 'undefined') {
      const catchUp = () => void this.catchUp().catch(() => undefined);
      client.on('show', catchUp);
      catchUp();
    }
    if (options.enabled && options.autoRegister !== false && permission() === 'granted' && !this.isOff())
      void this.subscribe(false);
  }

  isEnabled(): boolean {
    return permission() === 'granted' && this.link.isEnabled();
  }

  /** Asks the user for permission, and subscribes if they grant it. Call it from a click. */
  async requestPermission(): Promise<boolean> {
    if (permission() === 'unsupported') return false;
    return (await Notification.requestPermission()) === 'granted' && this.subscribe();
  }

  /** Subscribes this browser; the user must have granted permission. `requested` is false at `init`. */
  async subscribe(requested = true): Promise<boolean> {
    if (permission() !== 'granted') return false;
    try {
      const { serviceWorker = '/rekindle-sw.js', scope = '/rekindle-push/' } = this.options;
      const registration = await navigator.serviceWorker.register(serviceWorker, { scope });
      await active(registration);
      const key = await this.serverKey();
      await this.shareUser({ serverKey: key });
      let subscription = await registration.pushManager.getSubscription();
      // Messages signed with another key would not arrive.
      if (subscription && !sameKey(subscription.options.applicationServerKey, key)) {
        await subscription.unsubscribe();
        subscription = null;
      }
      subscription ??= await registration.pushManager.subscribe({
        userVisibleOnly: true,
        applicationServerKey: fromBase64Url(key),
      });
      return await this.registerToken(JSON.stringify(subscription), requested);
    } catch (error) {
      this.client.platform.log('warn', 'push: cannot subscribe', error);
      return false;
    }
  }

  /** Registers a subscription that was created elsewhere, as JSON. */
  async registerToken(subscription: string, requested = true): Promise<boolean> {
    await this.shareUser({ token: subscription });
    const done = await this.link.register(subscription, 'WEB', requested);
    await this.shareUser();
    return done;
  }

  async optOut(): Promise<boolean> {
    const done = await this.link.optOut();
    await this.shareUser();
    return done;
  }

  async optIn(): Promise<boolean> {
    if (permission() === 'granted' && !this.client.identity.get().push?.token) return this.subscribe();
    const done = await this.link.optIn();
    await this.shareUser();
    return done;
  }

  /** Does what the worker could not: sends reports that failed, and registers a subscription that the browser has replaced. */
  private async catchUp(): Promise<void> {
    const { token } = (await recall()) ?? {};
    if (token) await this.link.replace(token);
    const { reports, forget } = await pending();
    if (!reports.length) return;
    // Reports have an ID: those that the worker or another page also sends are recorded once.
    this.client.resend(reports);
    await forget(reports);
  }

  private isOff(): boolean {
    return this.client.identity.get().push?.off === true;
  }

  private async serverKey(): Promise<string> {
    const answer = await sendRequest(this.client, '/push-tokens', 'GET');
    const body = JSON.parse(await answer.text()) as { data?: { vapid_public_key?: string }; message?: string };
    if (!body.data?.vapid_public_key) throw new Error(body.message ?? 'the server has no key for web push');
    return body.data.vapid_public_key;
  }

  /** Passes the current user to the worker, which reports received messages for them. */
  private async shareUser(more?: Partial<Remembered>): Promise<void> {
    const { settings, identity } = this.client;
    const { userId, anonymousId, userHash, userToken, optedOut, push } = identity.get();
    // Also if the app subscribed with a call.
    if (!(this.options.enabled || push || more) || typeof caches === 'undefined') return;
    const { apiUrl, apiKey } = settings;
    const who = {
      apiUrl,
      apiKey,
      userId,
      anonymousId,
      userHash,
      userToken,
      optedOut: !!optedOut,
      unlinked: !push?.token || !!push.off || !!push.idle,
    };
    await remember({ ...who, ...more }).catch(() => undefined);
  }
}

function permission(): NotificationPermission | 'unsupported' {
  return typeof Notification === 'undefined' || !navigator.serviceWorker ? 'unsupported' : Notification.permission;
}

function active(registration: ServiceWorkerRegistration): Promise<void> {
  return new Promise((done, failed) => {
    const worker = registration.active ?? registration.waiting ?? registration.installing;
    if (!worker || worker.state === 'activated') return done();
    worker.addEventListener('statechange', () => {
      if (worker.state === 'activated') done();
      else if (worker.state === 'redundant') failed(new Error('the service worker was not installed'));
    });
  });
}

function fromBase64Url(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (char) => char.charCodeAt(0));
}

function sameKey(key: ArrayBuffer | null, text: string): boolean {
  return !!key && String(new Uint8Array(key)) === String(fromBase64Url(text));
}
