import { t } from '../../text';

/**
 * Returns the key from a create response. The response to a repeated request does not contain it, so if the first response was
 * lost, so is the key.
 */
export function keyOf({ key }: { key: string | null }): string {
  if (key === null) throw new Error(t.keys.lost);
  return key;
}
