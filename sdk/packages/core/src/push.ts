import { sendRequest } from './request';
import type { Client } from './client';
import type { Device } from './identity';

/** Keeps the server's record of this device's user up to date, across lost connections and restarts. */
export class PushLink {
  private syncing: Promise<boolean> = Promise.resolve(true);

  constructor(private readonly client: Client) {
    const { identity } = client;
    client.on('identify', () => {
      if (identity.get().push) void this.change({ idle: undefined });
    });
    client.on('reset', () => {
      if (identity.get().push) void this.change({ idle: true });
    });
    client.on('online', () => void this.sync());
    client.on('show', () => void this.sync());
    void this.sync();
  }

  /**
   * Registers the push service's token for this device; for browsers, the subscription's JSON. Returns whether the server has it.
   * If the user did not request it, an earlier `optOut` or `reset` still applies.
   */
  register(token: string, platform: Device['platform'], requested = true): Promise<boolean> {
    const before = this.client.identity.get().push;
    const owner = before?.token === token ? before.owner : undefined;
    return this.change({ token, platform, owner, ...(requested && { off: undefined, idle: undefined }) });
  }

  /** Called when the push service has replaced this device's token, whether push is enabled or not. */
  async replace(token: string): Promise<void> {
    const { push } = this.client.identity.get();
    if (push?.token && push.token !== token) await this.change({ token, owner: undefined });
  }

  /** Whether messages reach this device. */
  isEnabled(): boolean {
    const push = this.client.identity.get().push;
    return !!push?.token && !push.off;
  }

  /** Stops push to this device until `optIn`, or until the user requests the registration of a token. */
  optOut(): Promise<boolean> {
    return this.change({ off: true });
  }

  /** Returns false if this device has no token yet. */
  async optIn(): Promise<boolean> {
    const { push } = this.client.identity.get();
    const done = !push || (await this.change({ off: undefined, idle: undefined }));
    return done && !!push?.token;
  }

  /** Records that this device received a message. */
  received(messageId: string): void {
    this.client.track('push_received', { messageId });
  }

  /** Records that the user opened a message. */
  opened(messageId: string): void {
    this.client.track('push_opened', { messageId });
  }

  private change(change: Partial<Device>): Promise<boolean> {
    const { push } = this.client.identity.get();
    this.client.identity.set({ push: { ...push, ...change } });
    return this.sync();
  }

  private sync(): Promise<boolean> {
    this.syncing = this.syncing.then(() => this.update()).catch(() => false);
    return this.syncing;
  }

  private async update(): Promise<boolean> {
    const { push, userId, anonymousId } = this.client.identity.get();
    if (!push?.token) return true;
    const owner = push.off || push.idle ? undefined : (userId ?? anonymousId);
    if (push.owner === owner) return true;
    const user = userId === undefined ? { anonymous_id: anonymousId } : { user_id: userId };
    const { token, platform } = push;
    const done =
      owner === undefined
        ? await this.send('DELETE', { token })
        : await this.send('POST', { ...user, token, platform });
    const now = this.client.identity.get().push;
    if (done && now?.token === token) this.client.identity.set({ push: { ...now, owner } });
    return done;
  }

  private async send(method: string, body: unknown): Promise<boolean> {
    const answer = await sendRequest(this.client, '/push-tokens', method, body);
    const done = answer.status >= 200 && answer.status < 300;
    if (!done) this.client.platform.log('warn', 'push: the server rejected the token', await answer.text());
    return done;
  }
}
