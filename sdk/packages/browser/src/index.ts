import { Rekindle } from '../../web/src/index';
import type { Stub } from './stub';

/** As the address of this script says: what serves it is the server. */
class Scripted extends Rekindle {
  /** Told already, before the script was there. */
  protected override fresh(): string {
    return before?.anonymousId ?? super.fresh();
  }

  protected override origin(): string | undefined {
    return server;
  }

  /** What was called before the script was there, as of then. */
  replay({ calls, lost = 0 }: Pick<Stub, 'calls' | 'lost'>): void {
    this.lost = lost;
    for (const [name, args, done, calledAt] of calls) {
      const [first, second] = name.split('.') as [keyof Rekindle, keyof Rekindle['push'] | undefined];
      this.calledAt = calledAt;
      try {
        const on = second ? this.push : this;
        const call = on[(second ?? first) as never] as unknown;
        if (typeof call === 'function') done(call.apply(on, args) as never);
      } catch (error) {
        // What `init` throws in debug must not cost the calls behind it.
        reportError(error);
      }
    }
    this.calledAt = undefined;
  }
}

// Loaded where there is no page, it does nothing.
const page = (typeof window === 'undefined' ? {} : window) as { rekindle?: Stub | Rekindle };
const source =
  (typeof document === 'undefined' ? null : (document.currentScript as HTMLScriptElement | null))?.src ?? '';
const server = source.includes('/sdk/') ? source.slice(0, source.indexOf('/sdk/')) : undefined;

const before = page.rekindle as Stub | undefined;
// Loaded twice, the first one stays: it has the page's state.
if (!before || before.calls) {
  const rekindle = new Scripted();
  page.rekindle = rekindle;
  rekindle.replay(before ?? { calls: [] });
}
