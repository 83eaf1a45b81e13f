//! Recurring campaigns.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use kernel::timezone;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recurrence {
    /// Minute, hour, day of the month, month, day of the week.
    pub cron: String,
    /// IANA name of the timezone in which the expression is evaluated.
    pub timezone: String,
}

/// Years to search for the next due time. In 40 years each day of a month falls on each day of the week, 29 February
/// included. A longer search for an expression that is never due would take half a second.
const YEARS: i16 = 40;

impl Recurrence {
    /// Returns the invalid field and what is allowed there; `None` if the recurrence is valid.
    pub fn problem(&self, now: Timestamp) -> Option<(&'static str, String)> {
        let Some(timezone) = timezone::named(&self.timezone) else {
            return Some(("timezone", "must be an IANA timezone such as Europe/Oslo".to_owned()));
        };
        let allowed = "must be a cron expression of five fields: minute, hour, day of month, month, day of week";
        match parsed(&self.cron) {
            Err(why) => Some(("cron", format!("{allowed} ({why})"))),
            Ok(_) if !self.falls_due(&timezone, now) => Some(("cron", "is never due".to_owned())),
            Ok(_) => None,
        }
    }

    /// Returns whether it is due within [`YEARS`].
    fn falls_due(&self, timezone: &TimeZone, now: Timestamp) -> bool {
        // A nickname such as `@daily` cannot be combined with years, and is due in every year.
        if self.cron.trim_start().starts_with('@') {
            return true;
        }
        let year = now.to_zoned(timezone.clone()).year();
        // Years are the seventh field, after seconds as the first.
        let bounded = format!("0 {} {year}-{}", self.cron, year.saturating_add(YEARS));
        let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Required).build();
        parser.parse(&bounded).is_ok_and(|cron| next(&cron, timezone, now).is_some())
    }

    /// Returns the first due time after `time`.
    ///
    /// A local time that a clock change skips moves past the gap; one that it repeats is due once.
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        next(&parsed(&self.cron).ok()?, &timezone::named(&self.timezone)?, time)
    }
}

fn parsed(cron: &str) -> Result<Cron, String> {
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    parser.parse(cron).map_err(|e| e.to_string())
}

fn next(cron: &Cron, timezone: &TimeZone, time: Timestamp) -> Option<Timestamp> {
    let found = cron.find_next_occurrence(&time.to_zoned(timezone.clone()), false).ok()?;
    Some(found.timestamp())
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn of(cron: &str, timezone: &str) -> Recurrence {
        Recurrence { cron: cron.to_owned(), timezone: timezone.to_owned() }
    }

    #[test]
    fn recurrence_uses_local_time() {
        let daily = of("0 9 * * *", "Europe/Oslo");
        assert_eq!(daily.next_after(at("2026-01-10T08:00:00Z")), Some(at("2026-01-11T08:00:00Z")));
        // Summer time begins on 29 March and ends on 25 October.
        assert_eq!(daily.next_after(at("2026-03-28T08:00:00Z")), Some(at("2026-03-29T07:00:00Z")));
        assert_eq!(daily.next_after(at("2026-10-24T07:00:00Z")), Some(at("2026-10-25T08:00:00Z")));
        let monday = of("30 7 * * MON", "UTC");
        assert_eq!(monday.next_after(at("2026-06-15T07:29:59Z")), Some(at("2026-06-15T07:30:00Z")));
    }

    #[test]
    fn skipped_or_repeated_hour_is_due_once() {
        let night = of("30 2 * * *", "Europe/Oslo");
        let mut times = vec![at("2026-03-28T00:00:00Z")];
        for _ in 0..3 {
            times.push(night.next_after(times[times.len() - 1]).unwrap());
        }
        assert_eq!(times[1], at("2026-03-28T01:30:00Z"));
        assert!(times[2] >= at("2026-03-29T01:00:00Z") && times[2] <= at("2026-03-29T01:30:00Z"), "{}", times[2]);
        assert_eq!(times[3], at("2026-03-30T00:30:00Z"));
        let autumn = night.next_after(at("2026-10-24T12:00:00Z")).unwrap();
        assert_eq!(autumn, at("2026-10-25T00:30:00Z"));
        assert_eq!(night.next_after(autumn), Some(at("2026-10-26T01:30:00Z")));
    }

    #[test]
    fn invalid_recurrence_is_refused() {
        let problem = |cron, timezone| of(cron, timezone).problem(at("2026-01-01T00:00:00Z")).map(|(field, _)| field);
        assert_eq!(problem("0 9 * * 1-5", "America/New_York"), None);
        assert_eq!(problem("0 9 29 2 *", "UTC"), None);
        for cron in
            ["", "0 9", "0 9 * *", "0 9 * * * *", "60 9 * * *", "0 24 * * *", "x 9 * * *", "0 0 31 2 *", "0 0 30 2 *"]
        {
            assert_eq!(problem(cron, "UTC"), Some("cron"), "{cron}");
        }
        for timezone in ["", "Mars/Olympus", "CEST+2", "+02:00"] {
            assert_eq!(problem("0 9 * * *", timezone), Some("timezone"), "{timezone}");
        }
    }

    #[test]
    fn recurrence_that_is_never_due_is_refused_quickly() {
        let now = at("2288-03-01T00:00:00Z");
        // 40 years, the longest time from one 29 February to the next on the same day of the week.
        for due in ["0 0 29 2 *", "0 0 29 2 +WED", "@yearly", "0 0 L 2 *"] {
            assert_eq!(of(due, "Europe/Berlin").problem(now), None, "{due}");
        }
        for never in ["0 0 31 2,4,6,9,11 *", "* * 30 2 *"] {
            let problem = of(never, "Europe/Berlin").problem(now);
            assert_eq!(problem, Some(("cron", "is never due".to_owned())), "{never}");
        }
    }
}
