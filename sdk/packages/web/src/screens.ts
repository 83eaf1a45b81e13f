import type { Client } from '@rekindle/core';
import { listen } from './platform';

/** Records a screen view for each address that the page shows, also where a router changes it without loading. */
export function trackScreens(client: Client, name: (location: Location) => string = ({ pathname }) => pathname): void {
  let last: string | undefined;
  const look = () => {
    const { href, pathname } = location;
    // A change of the fragment alone is a place on the same screen.
    const address = href.split('#')[0];
    if (address === last) return;
    const referrer = last ?? document.referrer;
    last = address;
    let screen = pathname;
    try {
      // A longer name is none.
      screen = name(location).slice(0, 200);
    } catch (error) {
      client.platform.log('warn', 'screenName failed', error);
    }
    client.screen(screen, { path: pathname, url: href, title: document.title, referrer });
  };
  const restore = (['pushState', 'replaceState'] as const).map((method) => {
    const before = history[method];
    const ours = function (this: History, ...args: Parameters<History['pushState']>): void {
      before.apply(this, args);
      // After the router has drawn: the title is the new one then.
      setTimeout(look);
    };
    history[method] = ours;
    return () => {
      if (history[method] === ours) history[method] = before;
    };
  });
  restore.push(listen(window, 'popstate', () => setTimeout(look)));
  client.on('dispose', () => restore.forEach((undo) => undo()));
  look();
}
