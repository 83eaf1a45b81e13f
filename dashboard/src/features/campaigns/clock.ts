/** What a zone's clock shows at a moment, as if it were UTC: in milliseconds. */
function shownIn(zone: string, at: number): number {
  const parts = new Intl.DateTimeFormat('en', {
    timeZone: zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  }).formatToParts(at);
  const of = (type: Intl.DateTimeFormatPartTypes) => Number(parts.find((part) => part.type === type)?.value);
  return Date.UTC(of('year'), of('month') - 1, of('day'), of('hour'), of('minute'), of('second'));
}

/** A moment as a zone's clock shows it, to the minute: `2026-01-31T09:00`. */
export function onClock(at: string, zone: string): string {
  return new Date(shownIn(zone, new Date(at).getTime())).toISOString().slice(0, 16);
}

/** The moment at which a zone's clock shows a time; in the hour that a clock skips, as long after as was meant. */
export function momentOf(shown: string, zone: string): string {
  const wanted = new Date(`${shown}Z`).getTime();
  const offsetAt = (at: number) => shownIn(zone, at) - at;
  const near = wanted - offsetAt(wanted);
  const found = wanted - offsetAt(near);
  return new Date(shownIn(zone, found) === wanted ? found : Math.max(near, found)).toISOString();
}

/** The zone of the viewer's own clock. */
export const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
