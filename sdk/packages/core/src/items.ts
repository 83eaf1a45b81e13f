/** Free-form values; what JSON does not know is left out. */
export type Properties = Record<string, unknown>;

/** One line of a batch, as the API takes it. */
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

/** Bytes of one item's properties at most, as the server counts them. */
export const PROPERTIES_BYTES: number = 32 * 1024;
/** Items of a batch at most. */
export const BATCH_ITEMS = 100;
/** Bytes of a batch at most: what a closing page may still send. */
export const BATCH_BYTES: number = 60 * 1024;

/** Whether the server would take it as the name of an event or a person. */
export function isName(name: unknown): name is string {
  return typeof name === 'string' && name.length > 0 && name.length <= 200 && !/[^ -~\xa0-\uffff]/.test(name);
}
