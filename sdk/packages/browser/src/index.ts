import { Rekindle } from '../../web/src/index';
import type { Stub } from './stub';

/** The SDK of a page that loads this script from the server; the server's address is that of the script. */
class ScriptRekindle extends Rekindle {
  /** The anonymous ID that the stub returned, if any. */
  protected override fresh(): string {
    return before?.anonymousId ?? super.fresh();
  }

  protected override origin(): string | undefined {
    return server;
  }

  /** Runs the calls that were made before the script was loaded, with the time of each. */
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
        // An `init` that throws in debug mode must not prevent the calls after it.
        reportError(error);
      }
    }
    this.calledAt = undefined;
  }
}

// Without a page the script does nothing.
const page = (typeof window === 'undefined' ? {} : window) as { rekindle?: Stub | Rekindle };
const source =
  (typeof document === 'undefined' ? null : (document.currentScript as HTMLScriptElement | null))?.src ?? '';
const server = source.includes('/sdk/') ? source.slice(0, source.indexOf('/sdk/')) : undefined;

const before = page.rekindle as Stub | undefined;
// If loaded twice, the first instance stays: it has the page's state.
if (!before || before.calls) {
  const rekindle = new ScriptRekindle();
  page.rekindle = rekindle;
  rekindle.replay(before ?? { calls: [] });
}
