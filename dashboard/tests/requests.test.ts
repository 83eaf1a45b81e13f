import { expect, test } from 'vitest';
import { type Example, REQUESTS, firstEvent } from '../src/app/requests';

test('a request names the key that it takes, and no shell reads more into it', () => {
  for (const [name, example] of Object.entries<Example>(REQUESTS)) {
    const code = example.code('https://x.example', '$KEY');
    expect(code, name).toMatch(
      /^curl "https:\/\/x\.example\/api\/v1\/[a-z/-]+" -H "x-api-key: \$KEY" -H 'content-type: application\/json' \\\n {2}-d '\{[^']+\}'$/,
    );
    expect(() => void JSON.parse(code.slice(code.indexOf("-d '") + 4, -1))).not.toThrow();
  }
});

test('a first event is somebody, and what they did', () => {
  const code = firstEvent('https://x.example', 'pk_live_1');
  expect(code.match(/x-api-key: pk_live_1/g)).toHaveLength(2);
  expect(code.indexOf('/users/identify')).toBeLessThan(code.indexOf('/events'));
});
