import { renderToString } from 'react-dom/server';
import { expect, test } from 'vitest';
import { Rekindle } from '../src/index';
import { RekindleProvider, useInbox, useRekindle } from '../src/react';

function Shop() {
  const rekindle = useRekindle();
  const { items } = useInbox();
  return (
    <p>
      {rekindle.getUserId() ?? 'anonymous'} {items.length}
    </p>
  );
}

test('rendering on a server without a page works', () => {
  expect(typeof document).toBe('undefined');
  const html = renderToString(
    <RekindleProvider options={{ projectId: 'p', apiKey: 'pk_live_x' }} client={new Rekindle()}>
      <Shop />
    </RekindleProvider>,
  );
  expect(html.replaceAll('<!-- -->', '')).toBe('<p>anonymous 0</p>');
});
