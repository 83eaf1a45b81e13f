import { Client, Facade, type Options, settings, uuids } from '@rekindle/core';
import { browser, random } from './platform';
import { trackScreens } from './screens';

export type { CartItem, Checkout, Drop, DropReason, IdentifyOptions, Order, Product, Properties } from '@rekindle/core';

export interface WebOptions extends Options {
  /** Returns the name of a screen. Default: its path. */
  screenName?: (location: Location) => string;
}

/** The SDK for events and users, without push, inbox and news. */
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

  /** Address of the server if `apiUrl` is missing. */
  protected origin(): string | undefined {
    return undefined;
  }
}

const rekindle: Events = new Events();
export { rekindle };
