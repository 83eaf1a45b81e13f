import type { Drop } from './drops';
import type { UserTokenProvider } from './proofs';

/** What `init` takes everywhere. */
export interface Options {
  /** The project's id. */
  projectId: string;
  /** A public key: `pk_live_…`. */
  apiKey: string;
  /** Where Rekindle answers: `https://rekindle.example.com`; `/api/v1` is added where it is missing. */
  apiUrl?: string;
  /** Says in the console what happens, and lets `init` throw. Default: false. */
  debug?: boolean;
  /** Records screen views by itself. Default: true. */
  autoTrackScreens?: boolean;
  /** Records `app_opened` and `app_backgrounded`. Default: true. */
  autoTrackLifecycle?: boolean;
  /** Sends when so many items wait, 1–100. Default: 20. */
  flushAt?: number;
  /** Sends at least so often while something waits, in seconds. Default: 30. */
  flushIntervalSeconds?: number;
  /** Records nothing until `optInTracking` is called. Default: false. */
  optOutByDefault?: boolean;
  /** Called each time that something is dropped: it was not recorded and will not be. */
  onDrop?: (drop: Drop) => void;
  /**
   * Called when the server refuses the user's token, or wants one: returns a fresh JWT from your server. Meanwhile what the user does is
   * kept.
   */
  userToken?: UserTokenProvider;
}

type Calls = 'onDrop' | 'userToken';

export type Settings = Required<Omit<Options, Calls>> & Pick<Options, Calls>;

const LOCAL = 'http://localhost:8080';

/** The options with their defaults; throws an `Error` that names what is wrong. */
export function settings(options: Options, defaultUrl: string = LOCAL): Settings {
  const given: Partial<Options> = options ?? {};
  const { projectId, apiKey } = given;
  if (typeof projectId !== 'string' || !projectId) throw new Error('init: projectId is missing');
  if (typeof apiKey !== 'string' || !apiKey) throw new Error('init: apiKey is missing');
  if (apiKey.startsWith('sk_')) {
    throw new Error('init: apiKey is a secret key: revoke it');
  }
  return {
    projectId,
    apiKey,
    apiUrl: base(given.apiUrl || defaultUrl),
    debug: given.debug === true,
    autoTrackScreens: given.autoTrackScreens !== false,
    autoTrackLifecycle: given.autoTrackLifecycle !== false,
    flushAt: between(given.flushAt, 1, 100, 20),
    flushIntervalSeconds: between(given.flushIntervalSeconds, 1, 3600, 30),
    optOutByDefault: given.optOutByDefault === true,
    ...(typeof given.onDrop === 'function' && { onDrop: given.onDrop }),
    ...(typeof given.userToken === 'function' && { userToken: given.userToken }),
  };
}

function base(url: string): string {
  const trimmed = String(url).replace(/\/+$/, '');
  return trimmed.endsWith('/v1') ? trimmed : `${trimmed}/api/v1`;
}

function between(value: unknown, least: number, most: number, otherwise: number): number {
  return typeof value === 'number' && value >= least ? Math.min(value, most) : otherwise;
}
