import { t } from '../../text';

/** A key that was just made. The answer to a repeat, after a first one that was lost, is without: then nobody has it. */
export function keyOf({ key }: { key: string | null }): string {
  if (key === null) throw new Error(t.keys.lost);
  return key;
}
