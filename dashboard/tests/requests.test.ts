import { expect, test } from 'vitest';
import { type Example, REQUESTS, firstEvent } from '../src/app/requests';

test('sample request contains the key and is safe to paste into a shell', () => {
  for (const [name, example] of Object.entries<Example>(REQUESTS)) {
    const code = example.code('https://x.example', '$KEY');
    expect(code, name).toMatch(
      /^curl "https:\/\/x\.example\/api\/v1\/[a-z/-]+" -H "x-api-key: \$KEY" -H 'content-type: application\/json' \\\n {2}-d '\{[^']+\}'$/,
    );
    expect(() => void JSON.parse(code.slice(code.indexOf("-d '") + 4, -1))).not.toThrow();
  }
});

test('first event identifies the user before the event', () => {
  const code = firstEvent('https://x.example', 'pk_live_1');
  expect(code.match(/x-api-key: pk_live_1/g)).toHaveLength(2);
  expect(code.indexOf('/users/identify')).toBeLessThan(code.indexOf('/events'));
});
