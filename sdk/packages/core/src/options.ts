import type { Drop } from './drops';
import type { UserTokenProvider } from './proofs';

/** Options of `init` on every platform. */
export interface Options {
  /** The project's ID. */
  projectId: string;
  /** A public key: `pk_live_…`. */
  apiKey: string;
  /** Address of Rekindle: `https://rekindle.example.com`. `/api/v1` is added if it is missing. */
  apiUrl?: string;
  /** Logs to the console, and makes `init` throw on invalid options. Default: false. */
  debug?: boolean;
  /** Records screen views automatically. Default: true. */
  autoTrackScreens?: boolean;
  /** Records `app_opened` and `app_backgrounded`. Default: true. */
  autoTrackLifecycle?: boolean;
  /** Sends once this many items are queued, 1–100. Default: 20. */
  flushAt?: number;
  /** Maximum time between sends while items are queued, in seconds. Default: 30. */
  flushIntervalSeconds?: number;
  /** Records nothing until `optInTracking` is called. Default: false. */
  optOutByDefault?: boolean;
  /** Called each time an item is dropped: it was not recorded and will not be. */
  onDrop?: (drop: Drop) => void;
  /**
   * Called when the server rejects the user's token or requires one. Returns a fresh JWT from your server. Until then the user's events
   * are kept.
   */
  userToken?: UserTokenProvider;
}

type Callbacks = 'onDrop' | 'userToken';

export type Settings = Required<Omit<Options, Callbacks>> & Pick<Options, Callbacks>;

const DEFAULT_URL = 'http://localhost:8080';

/** Returns the options with their defaults. Throws an `Error` that names the invalid option. */
export function settings(options: Options, defaultUrl: string = DEFAULT_URL): Settings {
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
    apiUrl: baseUrl(given.apiUrl || defaultUrl),
    debug: given.debug === true,
    autoTrackScreens: given.autoTrackScreens !== false,
    autoTrackLifecycle: given.autoTrackLifecycle !== false,
    flushAt: numberBetween(given.flushAt, 1, 100, 20),
    flushIntervalSeconds: numberBetween(given.flushIntervalSeconds, 1, 3600, 30),
    optOutByDefault: given.optOutByDefault === true,
    ...(typeof given.onDrop === 'function' && { onDrop: given.onDrop }),
    ...(typeof given.userToken === 'function' && { userToken: given.userToken }),
  };
}

function baseUrl(url: string): string {
  const trimmed = String(url).replace(/\/+$/, '');
  return trimmed.endsWith('/v1') ? trimmed : `${trimmed}/api/v1`;
}

function numberBetween(value: unknown, min: number, max: number, fallback: number): number {
  return typeof value === 'number' && value >= min ? Math.min(value, max) : fallback;
}
