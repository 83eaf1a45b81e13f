import type { Client } from '@rekindle/core';
import { listen } from './platform';

/** Records a screen view for each address of the page, also if a router changes it without loading. */
export function trackScreens(client: Client, name: (location: Location) => string = ({ pathname }) => pathname): void {
  let last: string | undefined;
  const check = () => {
    const { href, pathname } = location;
    // Another fragment is the same screen.
    const address = href.split('#')[0];
    if (address === last) return;
    const referrer = last ?? document.referrer;
    last = address;
    let screen = pathname;
    try {
      // Longer names are invalid.
      screen = name(location).slice(0, 200);
    } catch (error) {
      client.platform.log('warn', 'screenName failed', error);
    }
    client.screen(screen, { path: pathname, url: href, title: document.title, referrer });
  };
  const restore = (['pushState', 'replaceState'] as const).map((method) => {
    const before = history[method];
    const wrapped = function (this: History, ...args: Parameters<History['pushState']>): void {
      before.apply(this, args);
      // Waits for the router to render, to get the new title.
      setTimeout(check);
    };
    history[method] = wrapped;
    return () => {
      if (history[method] === wrapped) history[method] = before;
    };
  });
  restore.push(listen(window, 'popstate', () => setTimeout(check)));
  client.on('dispose', () => restore.forEach((undo) => undo()));
  check();
}
