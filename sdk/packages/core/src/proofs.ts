import type { Identity } from './identity';

/** Returns a fresh JWT of the user, or nothing where there is none. */
export type UserTokenProvider = (userId: string) => string | null | undefined | Promise<string | null | undefined>;

/** Proves users to the server, by a hash or by tokens that expire. */
export class Proofs {
  #asking: Promise<boolean> | undefined;
  /** The user and the token that the server refused last. */
  #refused = '';

  constructor(
    private readonly identity: Identity,
    private readonly apiKey: string,
    /** The app's function; `identify` may replace it. */
    public provider: UserTokenProvider | undefined,
    private readonly onRenewed: () => void,
  ) {}

  /** Headers of a request for the current user, or for the one before. */
  headers(userId: string | undefined = this.identity.get().userId): Record<string, string> {
    const { userHash, userToken } = this.identity.of(userId);
    return {
      'x-api-key': this.apiKey,
      ...(userToken && { 'x-user-token': userToken }),
      ...(userHash && { 'x-user-hash': userHash }),
    };
  }

  /** Notes that the server refused the user with this token. Returns whether another one may come: only for the current user. */
  refuse(userId: string, token: string | undefined): boolean {
    this.#refused = userId + token;
    return this.#isRenewable(userId);
  }

  /** Whether what the user did must wait for another token. */
  isRefused(userId: string): boolean {
    return this.#refused === userId + this.identity.get().userToken && this.#isRenewable(userId);
  }

  #isRenewable(userId: string): boolean {
    const known = this.identity.get();
    return known.userId === userId && !!(this.provider || known.userToken);
  }

  /** Gets a token in place of the refused one. Returns whether there is another. */
  async renew(refused: string | undefined = this.identity.get().userToken): Promise<boolean> {
    // Another page may have stored one.
    this.identity.reload();
    const { userId, userToken } = this.identity.get();
    if (userToken !== refused) return true;
    return (this.#asking ??= this.#ask(userId).finally(() => (this.#asking = undefined)));
  }

  async #ask(userId: string | undefined): Promise<boolean> {
    try {
      const userToken = userId && (await this.provider?.(userId));
      const known = this.identity.get();
      // Another user may be here by now.
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

/** Whether a header can carry it: what it cannot would fail the whole request. */
export function isProof(value: unknown): value is string {
  return typeof value === 'string' && /^[\w.-]+$/.test(value);
}
