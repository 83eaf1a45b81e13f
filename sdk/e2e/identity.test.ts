import { expect, test, vi } from 'vitest';
import type { InboxChange, Rekindle } from '../packages/web/src/index';
import { fixture, quiet, waited } from './fixture';

declare const rekindle: Rekindle;

const here = fixture();

test('an expired token is replaced: each event is recorded once, and no URL contains a proof', async () => {
  await here.product.set({ identityVerification: true });
  const user = 'token-user';
  const page = await here.open(quiet);
  const asked = await page.evaluate(
    async ([user, expired, fresh]) => {
      const changes: InboxChange[] = [];
      const asked: string[] = [];
      Object.assign(globalThis, { changes });
      const userToken = async (userId: string) => {
        asked.push(userId);
        return asked.length === 1 ? expired : fresh;
      };
      rekindle.identify(user, { plan: 'pro' }, { userToken });
      for (let n = 0; n < 30; n++) rekindle.track('step', { n });
      rekindle.followInbox((change) => changes.push(change));
      while (Object.keys(localStorage).some((key) => key.includes('.queue.'))) {
        await rekindle.flush();
        await new Promise((done) => setTimeout(done, 20));
      }
      return asked;
    },
    [user, here.product.userToken(user, -3_600), here.product.userToken(user, 3_600)] as const,
  );
  expect(new Set(asked)).toEqual(new Set([user]));
  await vi.waitFor(async () => {
    const steps = (await here.events(user))
      .filter((event) => event.eventName === 'step')
      .map((event) => event.properties.n as number);
    expect(steps.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, n) => n));
  }, waited);
  // The inbox's stream also uses the new token.
  const changes = () => page.evaluate(() => (globalThis as unknown as { changes: InboxChange[] }).changes);
  await vi.waitFor(async () => expect((await changes()).at(-1)).toEqual({ type: 'unread', unread: 0 }), waited);
  await here.product.post('/messages', { userId: user, channel: 'IN_APP', content: { title: 'First', body: 'Hello' } });
  await vi.waitFor(
    async () => expect(await changes()).toContainEqual(expect.objectContaining({ type: 'message' })),
    waited,
  );
  expect(await page.evaluate(async () => (await rekindle.inbox()).map(({ title }) => title))).toEqual(['First']);
  expect(here.site.requests.map(({ status }) => status)).toContain(403);
  for (const { path } of here.site.requests) expect(path).not.toMatch(/token=|hash|eyJ/);
});

test('another user’s token is rejected, and permanently rejected events are reported', async () => {
  await here.product.set({ identityVerification: true });
  const page = await here.open(quiet);
  const dropped = await page.evaluate(
    async ([token]) => {
      rekindle.identify('token-victim', { plan: 'stolen' }, { userToken: token });
      await rekindle.flush();
      await rekindle.reset();
      await rekindle.flush();
      return rekindle.droppedItems('rejected');
    },
    [here.product.userToken('token-thief', 3_600)] as const,
  );
  expect(dropped).toBe(1);
  expect(await here.users('token-victim')).toEqual([]);
});
