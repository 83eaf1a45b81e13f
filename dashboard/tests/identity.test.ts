import { expect, test } from 'vitest';
import { identityOf, keepIdentities, withEntry } from '../src/app/identity';
import { type Step, cleaned, moved } from '../src/features/automations/step';

test('entry keeps its identity when others are removed, and when it is edited or moved', () => {
  const rules = [
    { field: 'properties.plan', operator: 'eq', value: 'pro' },
    { field: 'properties.country', operator: 'eq', value: 'DE' },
  ];
  const [plan, country] = rules.map(identityOf);
  expect(plan).not.toBe(country);
  expect(rules.slice(1).map(identityOf)).toEqual([country]);
  const edited = withEntry(rules, 1, { field: 'properties.country', operator: 'eq', value: 'AT' });
  expect(edited.map(({ value }) => value)).toEqual(['pro', 'AT']);
  expect(edited.map(identityOf)).toEqual([plan, country]);
  expect(moved(edited, 0, 1).map(identityOf)).toEqual([country, plan]);
});

test('copy of an entry has another identity, and identities are not sent', () => {
  const step: Step = { type: 'UPDATE_USER', properties: { plan: 'pro' } };
  const name = identityOf(step);
  expect(identityOf({ ...step })).not.toBe(name);
  expect(JSON.stringify([step, cleaned(step)])).not.toContain(name);
});

test('stored form of an entry keeps its identity, also in groups and branches', () => {
  const sent = {
    name: 'Pro',
    rules: [{ any: [{ field: 'email' }, { field: 'name' }] }, { not: { field: 'properties.plan' } }],
  };
  const identities = [sent.rules[0], sent.rules[0]?.any?.[1], sent.rules[1]].map((each) => identityOf(each as object));
  const stored = structuredClone(sent);
  keepIdentities(sent, stored);
  expect(
    [stored.rules[0], stored.rules[0]?.any?.[1], stored.rules[1]].map((each) => identityOf(each as object)),
  ).toEqual(identities);
  // A new entry gets its own identity, and identities of removed entries are not reused.
  const shorter = { rules: [stored.rules[0], { field: 'new' }] };
  keepIdentities({ rules: [sent.rules[0]] }, shorter);
  expect(identityOf(shorter.rules[1] as object)).not.toBe(identities[2]);
});
