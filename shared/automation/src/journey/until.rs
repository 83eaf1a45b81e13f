//! Computes when a time of day, or a date property of a user, comes.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp, ToSpan, Zoned};
use serde_json::{Map, Value};

use crate::{DateTrigger, Repeat};
use kernel::clock::from_ms;
use rules::eval::{self, Actual};
use rules::time::{self, time_of_day};

/// Returns when the clock in `zone` next shows `time`, `now` included.
pub(super) fn next_time(time: Time, zone: &TimeZone, now: Timestamp) -> Timestamp {
    let today = now.to_zoned(zone.clone()).date();
    let days = [Some(today), today.tomorrow().ok()];
    let times = days.into_iter().flatten().filter_map(|day| at(day, time, zone));
    times.into_iter().find(|t| *t >= now).unwrap_or(now)
}

fn at(day: Date, time: Time, zone: &TimeZone) -> Option<Timestamp> {
    // A time that a clock change skips is shifted forward by the length of the gap.
    Some(day.to_datetime(time).to_zoned(zone.clone()).ok()?.timestamp())
}

/// Returns the property's date, moved by `offset` seconds and then set to `time` on that day.
///
/// Returns `None` if the property is not a date.
pub(super) fn date_of(
    properties: &Map<String, Value>,
    property: &str,
    offset: f64,
    time: Option<Time>,
    zone: &TimeZone,
) -> Option<Timestamp> {
    shifted(&DatedProperty::of(properties, property)?.years_later(0, zone)?, offset, time, zone)
}

const DAY_SECS: f64 = 86_400.0;

/// Moves a date by `offset` seconds and then sets it to `time` on that day.
///
/// Whole days of the offset are calendar days, so that a day before is the day before even across a clock change.
fn shifted(day: &Zoned, offset: f64, time: Option<Time>, zone: &TimeZone) -> Option<Timestamp> {
    let days = (offset / DAY_SECS).trunc();
    let rest = SignedDuration::try_from_secs_f64(offset - days * DAY_SECS).ok()?;
    let moved = day.checked_add(Span::new().try_days(days as i64).ok()?).ok()?.checked_add(rest).ok()?;
    match time {
        None => Some(moved.timestamp()),
        Some(time) => at(moved.date(), time, zone),
    }
}

/// A property that is a date.
#[derive(Clone, Copy, Debug)]
struct DatedProperty<'a> {
    text: &'a str,
    /// The day, for a date without a time: it begins at midnight in the user's timezone.
    day: Option<Date>,
    at: Timestamp,
}

impl<'a> DatedProperty<'a> {
    fn of(properties: &'a Map<String, Value>, property: &str) -> Option<Self> {
        let path = property.strip_prefix("properties.").unwrap_or(property);
        let keys: Vec<String> = path.split('.').map(str::to_owned).collect();
        let Actual::Json(Value::String(text)) = eval::property(properties, &keys) else { return None };
        let at = time::parse(text)?;
        let day = if text.len() == 10 { Some(text.parse().ok()?) } else { None };
        Some(Self { text, day, at })
    }

    /// Returns the date `years` later, at the same local time; a date without a time begins at midnight.
    ///
    /// 29 February becomes 28 February in other than leap years.
    fn years_later(&self, years: i16, zone: &TimeZone) -> Option<Zoned> {
        match self.day {
            Some(day) => day.checked_add(years.years()).ok()?.to_datetime(Time::midnight()).to_zoned(zone.clone()).ok(),
            None => self.at.to_zoned(zone.clone()).checked_add(years.years()).ok(),
        }
    }
}

/// An occurrence of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateOccurrence<'a> {
    /// When the run starts, in whole milliseconds.
    pub at: Timestamp,
    /// The day of the occurrence, before the offset is applied.
    pub on: Date,
    /// The text of the property.
    pub date: &'a str,
}

/// Returns the first occurrence of the trigger's date after `after`, or `None` if there is none.
///
/// A yearly date first occurs in the year that the property gives.
pub fn next_occurrence<'a>(
    trigger: &DateTrigger,
    properties: &'a Map<String, Value>,
    zone: &TimeZone,
    after: Timestamp,
) -> Option<DateOccurrence<'a>> {
    let time = trigger.time.as_deref().and_then(time_of_day);
    let dated = DatedProperty::of(properties, &trigger.property)?;
    let occurrence = |years: i16| {
        let day = dated.years_later(years, zone)?;
        // Stored times have milliseconds: a fraction of one would make the same occurrence due again.
        let at = from_ms(shifted(&day, trigger.offset, time, zone)?.as_millisecond());
        (at > after).then_some(DateOccurrence { at, on: day.date(), date: dated.text })
    };
    if trigger.repeat == Repeat::Once {
        return occurrence(0);
    }
    let years = after.to_zoned(zone.clone()).year() - dated.years_later(0, zone)?.year();
    // The offset may move a date into the year before or after its own.
    ((years - 2).max(0)..=years.max(0) + 2).find_map(occurrence)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn properties(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn next_time_of_day_uses_user_timezone() {
        let nine = time_of_day("09:00").unwrap();
        for (name, now, next) in [
            ("Europe/Oslo", "2026-01-10T07:59:00Z", "2026-01-10T08:00:00Z"),
            ("Europe/Oslo", "2026-01-10T08:00:00Z", "2026-01-10T08:00:00Z"),
            ("Europe/Oslo", "2026-01-10T08:00:01Z", "2026-01-11T08:00:00Z"),
            ("Pacific/Auckland", "2026-01-10T19:00:00Z", "2026-01-10T20:00:00Z"),
            ("UTC", "2026-12-31T10:00:00Z", "2027-01-01T09:00:00Z"),
        ] {
            assert_eq!(next_time(nine, &zone(name), at(now)), at(next), "{name} {now}");
        }
        // The clock skips from 02:00 to 03:00.
        let half_past_two = time_of_day("02:30").unwrap();
        assert_eq!(
            next_time(half_past_two, &zone("Europe/Oslo"), at("2026-03-29T00:00:00Z")),
            at("2026-03-29T01:30:00Z")
        );
    }

    #[test]
    fn date_is_shifted_by_offset_and_time() {
        let user = properties(json!({"renewal": "2026-05-10", "a": {"b": "2026-05-10T10:00:00+02:00"}, "n": 5}));
        let oslo = zone("Europe/Oslo");
        let of =
            |property, offset, time: Option<&str>| date_of(&user, property, offset, time.and_then(time_of_day), &oslo);
        assert_eq!(of("renewal", 0.0, None), Some(at("2026-05-09T22:00:00Z")));
        assert_eq!(of("properties.renewal", -86_400.0, Some("09:00")), Some(at("2026-05-09T07:00:00Z")));
        assert_eq!(of("a.b", 3_600.0, None), Some(at("2026-05-10T09:00:00Z")));
        assert_eq!((of("n", 0.0, None), of("missing", 0.0, None)), (None, None));
    }

    #[test]
    fn whole_days_of_offset_are_calendar_days() {
        let user = properties(json!({"spring": "2026-03-30", "autumn": "2026-10-25"}));
        let oslo = zone("Europe/Oslo");
        let of =
            |property, offset, time: Option<&str>| date_of(&user, property, offset, time.and_then(time_of_day), &oslo);
        // 29 March has 23 hours, 25 October has 25.
        assert_eq!(of("spring", -86_400.0, Some("09:00")), Some(at("2026-03-29T07:00:00Z")));
        assert_eq!(of("spring", -86_400.0, None), Some(at("2026-03-28T23:00:00Z")));
        assert_eq!(of("autumn", 86_400.0, Some("09:00")), Some(at("2026-10-26T08:00:00Z")));
        // The remainder is elapsed time: 22 hours before midnight.
        assert_eq!(of("spring", -79_200.0, None), Some(at("2026-03-29T00:00:00Z")));
        assert_eq!(of("spring", -165_600.0, None), Some(at("2026-03-28T01:00:00Z")));
    }

    fn trigger(repeat: Repeat, offset: f64, time: Option<&str>) -> DateTrigger {
        DateTrigger { property: "date".to_owned(), offset, time: time.map(str::to_owned), repeat }
    }

    /// Returns when the run starts, and the day of the occurrence.
    fn next(date: &str, trigger: &DateTrigger, zone_name: &str, after: &str) -> Option<(Timestamp, String)> {
        let user = properties(json!({ "date": date }));
        let occurrence = next_occurrence(trigger, &user, &zone(zone_name), at(after))?;
        assert_eq!(occurrence.date, date);
        Some((occurrence.at, occurrence.on.to_string()))
    }

    #[test]
    fn yearly_date_recurs_every_year() {
        let yearly = |offset| trigger(Repeat::Yearly, offset, Some("09:00"));
        for (date, offset, after, comes, on) in [
            ("1990-06-01", 0.0, "2026-01-01T00:00:00Z", "2026-06-01T07:00:00Z", "2026-06-01"),
            ("1990-06-01", 0.0, "2026-06-01T06:59:59Z", "2026-06-01T07:00:00Z", "2026-06-01"),
            ("1990-06-01", 0.0, "2026-06-01T07:00:00Z", "2027-06-01T07:00:00Z", "2027-06-01"),
            ("1992-02-29", 0.0, "2026-01-01T00:00:00Z", "2026-02-28T08:00:00Z", "2026-02-28"),
            ("1992-02-29", 0.0, "2027-12-01T00:00:00Z", "2028-02-29T08:00:00Z", "2028-02-29"),
            ("1992-02-29", 86_400.0, "2026-01-01T00:00:00Z", "2026-03-01T08:00:00Z", "2026-02-28"),
            ("1990-01-02", -259_200.0, "2026-12-01T00:00:00Z", "2026-12-30T08:00:00Z", "2027-01-02"),
            ("1990-12-30", 259_200.0, "2026-01-01T00:00:00Z", "2026-01-02T08:00:00Z", "2025-12-30"),
            ("1990-06-01", -31_536_000.0, "2026-05-01T00:00:00Z", "2026-06-01T07:00:00Z", "2027-06-01"),
            ("1990-06-01", 31_536_000.0, "2026-05-01T00:00:00Z", "2026-06-01T07:00:00Z", "2025-06-01"),
            // Not before its first occurrence.
            ("2030-06-01", 0.0, "2026-01-01T00:00:00Z", "2030-06-01T07:00:00Z", "2030-06-01"),
            ("0001-06-01", 0.0, "2026-01-01T00:00:00Z", "2026-06-01T07:00:00Z", "2026-06-01"),
        ] {
            let found = next(date, &yearly(offset), "Europe/Oslo", after);
            assert_eq!(found, Some((at(comes), on.to_owned())), "{date} {offset} {after}");
        }
        for none in ["tomorrow", "1990-06-31", "", "1990-6-1"] {
            assert_eq!(next(none, &yearly(0.0), "Europe/Oslo", "2026-01-01T00:00:00Z"), None, "{none}");
        }
    }

    #[test]
    fn date_occurs_once_by_default() {
        let once = trigger(Repeat::Once, 0.0, Some("09:00"));
        let comes = Some((at("2026-06-01T07:00:00Z"), "2026-06-01".to_owned()));
        assert_eq!(next("2026-06-01", &once, "Europe/Oslo", "2026-01-01T00:00:00Z"), comes);
        assert_eq!(next("2026-06-01", &once, "Europe/Oslo", "2026-06-01T07:00:00Z"), None);
        assert_eq!(next("9999-12-31", &trigger(Repeat::Once, 864_000.0, None), "UTC", "2026-01-01T00:00:00Z"), None);
    }

    #[test]
    fn occurrence_uses_local_time_of_user() {
        let yearly = |time| trigger(Repeat::Yearly, 0.0, time);
        for (date, time, zone, after, comes) in [
            ("1990-06-01", None, "Pacific/Auckland", "2026-01-01T00:00:00Z", "2026-05-31T12:00:00Z"),
            // If a clock change skips 02:30, it is an hour later; if it repeats 02:30, the first one counts.
            ("1990-03-29", Some("02:30"), "Europe/Oslo", "2026-01-01T00:00:00Z", "2026-03-29T01:30:00Z"),
            ("1990-10-25", Some("02:30"), "Europe/Oslo", "2026-01-01T00:00:00Z", "2026-10-25T00:30:00Z"),
            // If a clock change skips midnight, the first moment of the day counts; the next year it is midnight again.
            ("2017-10-15", None, "America/Sao_Paulo", "2017-01-01T00:00:00Z", "2017-10-15T03:00:00Z"),
            ("2017-10-15", None, "America/Sao_Paulo", "2018-01-01T00:00:00Z", "2018-10-15T03:00:00Z"),
            // A timestamp keeps its local time, in summer as in winter.
            ("2020-01-10T08:30:00+01:00", None, "Europe/Oslo", "2026-01-01T00:00:00Z", "2026-01-10T07:30:00Z"),
            ("2020-07-10T08:30:00+02:00", None, "Europe/Oslo", "2026-01-01T00:00:00Z", "2026-07-10T06:30:00Z"),
            // Fractions of a millisecond are truncated.
            ("2026-01-10T08:30:00.0009Z", None, "UTC", "2026-01-01T00:00:00Z", "2026-01-10T08:30:00Z"),
        ] {
            let found = next(date, &yearly(time), zone, after).map(|(at, _)| at);
            assert_eq!(found, Some(at(comes)), "{date} {zone} {after}");
        }
    }

    proptest! {
        /// Following the occurrences one by one yields exactly one per year, each later than the one before.
        #[test]
        fn yearly_date_occurs_once_per_year(
            days in 0..36_500_i32,
            offset in -400..=400_i32,
            named in prop::sample::select(vec!["UTC", "Europe/Oslo", "America/New_York", "Pacific/Apia", "Asia/Kathmandu"]),
            time in prop::sample::select(vec![None, Some("00:00"), Some("02:30"), Some("23:59")]),
        ) {
            let first = Date::constant(1950, 1, 1).checked_add(days.days()).unwrap();
            let user = properties(json!({ "date": first.to_string() }));
            let yearly = trigger(Repeat::Yearly, f64::from(offset.clamp(-365, 365)) * 86_400.0, time);
            let mut after = at("1940-01-01T00:00:00Z");
            for year in 0..90 {
                let occurrence = next_occurrence(&yearly, &user, &zone(named), after).unwrap();
                prop_assert_eq!(occurrence.on.year(), first.year() + year);
                prop_assert!(occurrence.at > after);
                after = occurrence.at;
            }
        }
    }
}
