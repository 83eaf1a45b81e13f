import { en } from './en';

/** The words on the screens. Another language is another dictionary of this type, chosen here. */
export type Dictionary = typeof en;
export const t: Dictionary = en;
