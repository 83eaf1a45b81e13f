const shown = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' });

/** A time in the viewer's time zone, with UTC as a tooltip. */
export function Moment({ at }: { at: string | null | undefined }) {
  if (!at) return <>–</>;
  return (
    <time dateTime={at} title={`${at.slice(0, 19).replace('T', ' ')} UTC`}>
      {shown.format(new Date(at))}
    </time>
  );
}

/** Formats a calendar date such as 2026-01-31. */
export function formatDay(date: string): string {
  return day.format(new Date(`${date}T00:00:00Z`));
}
