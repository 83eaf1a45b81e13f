import { expect, test } from 'vitest';
import { Identity } from '../src/identity';
import type { Platform, Store } from '../src/platform';

/** Numbers in [0, 1) that are the same for the same seed. */
function numbers(seed: number): () => number {
  return () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
}

/** Storage as tabs in processes of their own see it: each has a copy, and hears of the others' writes after a while. */
class Shared {
  readonly stored = new Map<string, string>();
  private readonly copies: Array<{ copy: Map<string, string>; news: Array<[string, string]> }> = [];

  tab(): Store {
    const own = { copy: new Map(this.stored), news: [] as Array<[string, string]> };
    this.copies.push(own);
    return {
      get: (key) => own.copy.get(key) ?? null,
      set: (key, value) => {
        own.copy.set(key, value);
        this.stored.set(key, value);
        for (const other of this.copies) if (other !== own) other.news.push([key, value]);
      },
      remove: (key) => void own.copy.delete(key),
      keys: () => [...own.copy.keys()],
    };
  }

  /** Some of the tabs hear of some of what was written. */
  deliver(random: () => number): void {
    for (const { copy, news } of this.copies) {
      for (const [key, value] of news.splice(0, Math.floor(random() * (news.length + 1)))) copy.set(key, value);
    }
  }
}

test('an opt-out in one tab outlasts whatever others write, also before they have heard of it: 2,000 orders of events', () => {
  let made = 0;
  for (let seed = 1; seed <= 2_000; seed++) {
    const random = numbers(seed);
    const shared = new Shared();
    const open = () =>
      new Identity({ store: shared.tab() } as unknown as Platform, 'identity', () => `a${made++}`, false);
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

test('what an earlier version stored is read, and a later choice holds against it', () => {
  const shared = new Shared();
  shared.tab().set('identity', '{"anonymousId":"a","optedOut":true}');
  const open = () => new Identity({ store: shared.tab() } as unknown as Platform, 'identity', () => 'b', false);
  expect(open().get()).toMatchObject({ anonymousId: 'a', optedOut: true });
  open().setOptedOut(false);
  expect(open().get().optedOut).toBe(false);
  // Where an earlier version looks.
  open().setOptedOut(true);
  expect(JSON.parse(shared.stored.get('identity')!)).toMatchObject({ optedOut: true });
});

test('an opt-out elsewhere holds also in a tab whose storage is full', () => {
  const shared = new Shared();
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
