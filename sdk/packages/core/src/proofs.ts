import type { Identity } from './identity';

/** Returns a fresh JWT of the user, or nothing if there is none. */
export type UserTokenProvider = (userId: string) => string | null | undefined | Promise<string | null | undefined>;

/** Proves the user's identity to the server, with a hash or with tokens that expire. */
export class Proofs {
  #renewing: Promise<boolean> | undefined;
  /** User and token that the server rejected last. */
  #refused = '';

  constructor(
    private readonly identity: Identity,
    private readonly apiKey: string,
    /** The app's function; `identify` may replace it. */
    public provider: UserTokenProvider | undefined,
    private readonly onRenewed: () => void,
  ) {}

  /** Headers of a request for the current user or the previous one. */
  headers(userId: string | undefined = this.identity.get().userId): Record<string, string> {
    const { userHash, userToken } = this.identity.of(userId);
    return {
      'x-api-key': this.apiKey,
      ...(userToken && { 'x-user-token': userToken }),
      ...(userHash && { 'x-user-hash': userHash }),
    };
  }

  /** Records that the server rejected this token. Returns whether another one may follow, which only holds for the current user. */
  refuse(userId: string, token: string | undefined): boolean {
    this.#refused = userId + token;
    return this.#isRenewable(userId);
  }

  /** Whether the user's items must wait for another token. */
  isRefused(userId: string): boolean {
    return this.#refused === userId + this.identity.get().userToken && this.#isRenewable(userId);
  }

  #isRenewable(userId: string): boolean {
    const known = this.identity.get();
    return known.userId === userId && !!(this.provider || known.userToken);
  }

  /** Replaces the rejected token. Returns whether there is a new one. */
  async renew(refused: string | undefined = this.identity.get().userToken): Promise<boolean> {
    // Another page may have stored a new one.
    this.identity.reload();
    const { userId, userToken } = this.identity.get();
    if (userToken !== refused) return true;
    return (this.#renewing ??= this.#requestToken(userId).finally(() => (this.#renewing = undefined)));
  }

  async #requestToken(userId: string | undefined): Promise<boolean> {
    try {
      const userToken = userId && (await this.provider?.(userId));
      const known = this.identity.get();
      // The user may have changed meanwhile.
      if (!isProof(userToken) || userToken === known.userToken || known.userId !== userId) return false;
      this.identity.set({ userToken });
      this.onRenewed();
      return true;
    } catch (error) {
      console.error('[rekindle]', 'userToken failed', error);
      return false;
    }
  }
}

/** Whether a header can contain it. An invalid header would fail the whole request. */
export function isProof(value: unknown): value is string {
  return typeof value === 'string' && /^[\w.-]+$/.test(value);
}
