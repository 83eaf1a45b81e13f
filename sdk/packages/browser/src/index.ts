import { Rekindle } from '../../web/src/index';
import type { Stub } from './stub';

/** As the address of this script says: what serves it is the server. */
class Scripted extends Rekindle {
  protected override origin(): string | undefined {
    return server;
  }
}

const source = (document.currentScript as HTMLScriptElement | null)?.src ?? '';
const server = source.includes('/sdk/') ? source.slice(0, source.indexOf('/sdk/')) : undefined;

const page = window as unknown as { rekindle?: Stub | Rekindle };
const before = page.rekindle as Stub | undefined;
// Loaded twice, the first one stays: it has the page's state.
if (!before || before.calls) {
  const rekindle = new Scripted();
  page.rekindle = rekindle;
  for (const [name, args] of before?.calls ?? []) {
    const call = rekindle[name as keyof Rekindle] as unknown;
    if (typeof call === 'function') call.apply(rekindle, args);
  }
}
