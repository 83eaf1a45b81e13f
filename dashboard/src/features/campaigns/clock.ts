/** Returns the local time of a zone at a moment, as milliseconds of the same clock time in UTC. */
function localTimeIn(zone: string, at: number): number {
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

/** Converts a moment to the local time of a zone, to the minute: `2026-01-31T09:00`. */
export function toLocalTime(at: string, zone: string): string {
  return new Date(localTimeIn(zone, new Date(at).getTime())).toISOString().slice(0, 16);
}

/** Converts a local time of a zone to a moment. A time that a clock change skips is moved forward by the length of the change. */
export function fromLocalTime(local: string, zone: string): string {
  const wanted = new Date(`${local}Z`).getTime();
  const offsetAt = (at: number) => localTimeIn(zone, at) - at;
  const near = wanted - offsetAt(wanted);
  const found = wanted - offsetAt(near);
  return new Date(localTimeIn(zone, found) === wanted ? found : Math.max(near, found)).toISOString();
}

/** The viewer's time zone. */
export const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
