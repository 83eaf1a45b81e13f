import type { Rekindle } from '@rekindle/web';

/** What the script makes, where a snippet imports nothing. */
declare global {
  const rekindle: Rekindle;
}
