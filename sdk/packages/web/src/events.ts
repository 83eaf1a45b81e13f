import { Client, Facade, type Options, settings, uuids } from '@rekindle/core';
import { browser, random } from './platform';
import { trackScreens } from './screens';

export type { CartItem, Checkout, Drop, DropReason, IdentifyOptions, Order, Product, Properties } from '@rekindle/core';

export interface WebOptions extends Options {
  /** What a screen is called; its path where this is missing. */
  screenName?: (location: Location) => string;
}

/** Events and people, without push and without things to read. */
export class Events<O extends WebOptions = WebOptions> extends Facade<O> {
  protected start(options: O): Client {
    const checked = settings(options, this.origin());
    const client = new Client(checked, browser(checked), this.anonymousId);
    if (checked.autoTrackScreens) trackScreens(client, options.screenName);
    return client;
  }

  protected fresh(): string {
    return uuids(Date.now, random)();
  }

  /** Where the server is when `apiUrl` does not say so. */
  protected origin(): string | undefined {
    return undefined;
  }
}

const rekindle: Events = new Events();
export { rekindle };
