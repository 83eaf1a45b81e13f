import { en } from './en';

/** The texts of all screens. A translation is another dictionary of this type, selected here. */
export type Dictionary = typeof en;
export const t: Dictionary = en;
