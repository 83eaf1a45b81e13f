const shown = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' });

/** A moment in the viewer's own zone, with UTC on hover. */
export function Moment({ at }: { at: string | null | undefined }) {
  if (!at) return <>–</>;
  return (
    <time dateTime={at} title={`${at.slice(0, 19).replace('T', ' ')} UTC`}>
      {shown.format(new Date(at))}
    </time>
  );
}

/** A day of the calendar, such as 2026-01-31. */
export function dayOf(date: string): string {
  return day.format(new Date(`${date}T00:00:00Z`));
}
