import { ask } from './ask';
import type { Client } from './client';
import type { Device } from './identity';

/** Keeps the server's idea of whose this device is in line with who uses it, over lost connections and restarts. */
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
   * The token of this device, as its push service gave it; of a browser the subscription's JSON. Whether the server has it.
   * Where nobody has `asked` for it, an `optOut` and a `reset` of before still hold.
   */
  register(token: string, platform: Device['platform'], asked = true): Promise<boolean> {
    const before = this.client.identity.get().push;
    const owner = before?.token === token ? before.owner : undefined;
    return this.change({ token, platform, owner, ...(asked && { off: undefined, idle: undefined }) });
  }

  /** The push service has given this device another token, wanted or not. */
  async replace(token: string): Promise<void> {
    const { push } = this.client.identity.get();
    if (push?.token && push.token !== token) await this.change({ token, owner: undefined });
  }

  /** Whether messages reach this device. */
  isEnabled(): boolean {
    const push = this.client.identity.get().push;
    return !!push?.token && !push.off;
  }

  /** No push to this device until `optIn`, or until a token is registered because somebody asked. */
  optOut(): Promise<boolean> {
    return this.change({ off: true });
  }

  /** False where this device has no token yet. */
  async optIn(): Promise<boolean> {
    const { push } = this.client.identity.get();
    const done = !push || (await this.change({ off: undefined, idle: undefined }));
    return done && !!push?.token;
  }

  /** A message came to this device. */
  received(messageId: string): void {
    this.client.track('push_received', { messageId });
  }

  /** Its person opened it. */
  opened(messageId: string): void {
    this.client.track('push_opened', { messageId });
  }

  private change(change: Partial<Device>): Promise<boolean> {
    const { push } = this.client.identity.get();
    this.client.identity.set({ push: { ...push, ...change } });
    return this.sync();
  }

  private sync(): Promise<boolean> {
    this.syncing = this.syncing.then(() => this.align()).catch(() => false);
    return this.syncing;
  }

  private async align(): Promise<boolean> {
    const { push, userId, anonymousId } = this.client.identity.get();
    if (!push?.token) return true;
    const owner = push.off || push.idle ? undefined : (userId ?? anonymousId);
    if (push.owner === owner) return true;
    const who = userId === undefined ? { anonymous_id: anonymousId } : { user_id: userId };
    const { token, platform } = push;
    const done =
      owner === undefined ? await this.ask('DELETE', { token }) : await this.ask('POST', { ...who, token, platform });
    const now = this.client.identity.get().push;
    if (done && now?.token === token) this.client.identity.set({ push: { ...now, owner } });
    return done;
  }

  private async ask(method: string, body: unknown): Promise<boolean> {
    const answer = await ask(this.client, '/push-tokens', method, body);
    const done = answer.status >= 200 && answer.status < 300;
    if (!done) this.client.platform.log('warn', 'push: the server did not take the token', await answer.text());
    return done;
  }
}
