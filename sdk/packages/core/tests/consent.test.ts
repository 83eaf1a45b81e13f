import { expect, test } from 'vitest';
import { Identity } from '../src/identity';
import type { Platform, Store } from '../src/platform';

/** Returns numbers in [0, 1) that depend on the seed only. */
function numbers(seed: number): () => number {
  return () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
}

/** Storage of tabs in separate processes: each has a copy and receives the others' writes later. */
class SharedStorage {
  readonly stored = new Map<string, string>();
  private readonly copies: Array<{ copy: Map<string, string>; writes: Array<[string, string]> }> = [];

  tab(): Store {
    const own = { copy: new Map(this.stored), writes: [] as Array<[string, string]> };
    this.copies.push(own);
    return {
      get: (key) => own.copy.get(key) ?? null,
      set: (key, value) => {
        own.copy.set(key, value);
        this.stored.set(key, value);
        for (const other of this.copies) if (other !== own) other.writes.push([key, value]);
      },
      remove: (key) => void own.copy.delete(key),
      keys: () => [...own.copy.keys()],
    };
  }

  /** Delivers some of the pending writes to some of the tabs. */
  deliver(random: () => number): void {
    for (const { copy, writes } of this.copies) {
      for (const [key, value] of writes.splice(0, Math.floor(random() * (writes.length + 1)))) copy.set(key, value);
    }
  }
}

test('an opt-out in one tab persists whatever other tabs write, also before they have received it: 2,000 orders of events', () => {
  let nextId = 0;
  for (let seed = 1; seed <= 2_000; seed++) {
    const random = numbers(seed);
    const shared = new SharedStorage();
    const open = () =>
      new Identity({ store: shared.tab() } as unknown as Platform, 'identity', () => `a${nextId++}`, false);
    const tabs = [open(), open()];
    const steps = [
      () => tabs[0]!.setOptedOut(true),
      () => tabs[1]!.set({ userId: 'ann' }),
      () => void tabs.push(open()),
      () => tabs.at(-1)!.set({ push: { token: 't' } }),
      () => tabs[1]!.reset(),
    ];
    while (steps.length) {
      if (random() < 0.5) shared.deliver(random);
      steps.splice(Math.floor(random() * steps.length), 1)[0]!();
    }
    expect(open().get().optedOut, `seed ${seed}`).toBe(true);
  }
});

test('data stored by an earlier version is read, and a later choice overrides it', () => {
  const shared = new SharedStorage();
  shared.tab().set('identity', '{"anonymousId":"a","optedOut":true}');
  const open = () => new Identity({ store: shared.tab() } as unknown as Platform, 'identity', () => 'b', false);
  expect(open().get()).toMatchObject({ anonymousId: 'a', optedOut: true });
  open().setOptedOut(false);
  expect(open().get().optedOut).toBe(false);
  // Earlier versions read this field.
  open().setOptedOut(true);
  expect(JSON.parse(shared.stored.get('identity')!)).toMatchObject({ optedOut: true });
});

test('an opt-out in another tab also applies in a tab whose storage is full', () => {
  const shared = new SharedStorage();
  const store = shared.tab();
  const full = new Identity(
    {
      store: {
        ...store,
        set: () => {
          throw new Error('QuotaExceededError');
        },
      },
    } as unknown as Platform,
    'identity',
    () => 'a',
    false,
  );
  full.set({ userId: 'ann' });
  new Identity({ store: shared.tab() } as unknown as Platform, 'identity', () => 'b', false).setOptedOut(true);
  shared.deliver(() => 0.999);
  full.reload();
  expect(full.get()).toMatchObject({ userId: 'ann', optedOut: true });
});
