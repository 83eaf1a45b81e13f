import { t } from '../text';

export interface ReasonInWords {
  /** Part of the reason before the colon. */
  code: string;
  title: string;
  /** What to do. */
  advice: string;
  /** Part of the reason after the colon, such as the provider's response. */
  details: string;
}

interface ReasonText {
  title: string;
  advice: string;
}

type Texts = Readonly<Record<string, ReasonText>>;

/** Returns the text of a code; `undefined` for an unknown code, even one such as `constructor`. */
export function textOf<T>(texts: Readonly<Record<string, T>>, code: string): T | undefined {
  return Object.hasOwn(texts, code) ? texts[code] : undefined;
}

function inWords(reason: string, ...sources: Texts[]): ReasonInWords | null {
  const colon = reason.indexOf(':');
  const code = colon < 0 ? reason : reason.slice(0, colon);
  const details = colon < 0 ? '' : reason.slice(colon + 1).trim();
  for (const texts of sources) {
    const text = textOf(texts, code);
    if (text) return { code, title: text.title, advice: text.advice, details };
  }
  return null;
}

/** Describes the reason of a message with this status, or of a dead letter; null if its code is unknown. */
export function messageReason(reason: string, status: string): ReasonInWords | null {
  return status === 'queued'
    ? inWords(reason, t.queuedReasons, t.reasons)
    : inWords(reason, t.reasons, t.queuedReasons);
}

/** Describes why a run ended; null if the code is unknown. */
export function runReason(reason: string): ReasonInWords | null {
  return inWords(reason, t.runReasons);
}

/** Replaces the codes in a campaign's status reason, which quotes them as `` `rejected` ``. */
export function campaignReason(reason: string): string {
  return reason.replaceAll(/`([a-z_]+)`/g, (quoted, code: string) => {
    const title = textOf(t.reasons, code)?.title;
    return title ? `“${title}”` : quoted;
  });
}

interface StepEntry {
  did: string;
  arm: string | null;
  why: string | null;
}

/** Describes the details of an entry in a run's path; texts that are no known code are returned as they are. */
export function stepDetails({ did, arm, why }: StepEntry): string {
  if (!why) return '';
  // These entries have an event's name or ID, which could equal a code.
  if (did === 'converted') return t.stepGoal(why);
  if (did === 'took' && arm === 'then') return t.stepEvent(why);
  return textOf(t.stepReasons, why) ?? why;
}
