/** Custom values. Values that JSON cannot represent are omitted. */
export type Properties = Record<string, unknown>;

/** One item of a batch, as the API expects it. */
export interface Item {
  type: 'track' | 'identify' | 'screen';
  id: string;
  timestamp: string;
  user_id?: string;
  anonymous_id: string;
  user_hash?: string;
  event?: string;
  name?: string;
  properties?: Properties;
}

/** Maximum bytes of one item's properties, as the server counts them. */
export const PROPERTIES_BYTES: number = 32 * 1024;
/** Maximum items per batch. */
export const BATCH_ITEMS = 100;
/** Maximum bytes per batch: what a closing page may still send. */
export const BATCH_BYTES: number = 60 * 1024;

/** Returns whether the server accepts the value as an event name or a user ID. */
export function isName(name: unknown): name is string {
  return typeof name === 'string' && name.length > 0 && name.length <= 200 && !/[^ -~\xa0-\uffff]/.test(name);
}
