//! When a time of day, or a date among a person's properties, comes.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use serde_json::{Map, Value};

use crate::automation::{DateTrigger, Repeat};
use crate::rule::eval::{self, Actual};
use crate::rule::time::{self, time_of_day};

/// When it is that time of the day next, now included.
pub(super) fn next_time(time: Time, zone: &TimeZone, now: Timestamp) -> Timestamp {
    let today = now.to_zoned(zone.clone()).date();
    let days = [Some(today), today.tomorrow().ok()];
    let times = days.into_iter().flatten().filter_map(|day| at(day, time, zone));
    times.into_iter().find(|t| *t >= now).unwrap_or(now)
}

fn at(day: Date, time: Time, zone: &TimeZone) -> Option<Timestamp> {
    // Where clocks are put forward over the time, it is the same time after the gap.
    Some(day.to_datetime(time).to_zoned(zone.clone()).ok()?.timestamp())
}

/// The property's date, moved by an offset in seconds, and on that day to a time of day. None where there is no date.
pub(super) fn date_of(
    properties: &Map<String, Value>,
    property: &str,
    offset: f64,
    time: Option<Time>,
    zone: &TimeZone,
) -> Option<Timestamp> {
    let moved = moved(instant(properties, property, zone)?, offset)?;
    match time {
        None => Some(moved),
        Some(time) => at(moved.to_zoned(zone.clone()).date(), time, zone),
    }
}

fn moved(at: Timestamp, offset: f64) -> Option<Timestamp> {
    at.checked_add(SignedDuration::try_from_secs_f64(offset).ok()?).ok()
}

/// A property's time; a date without a time is its midnight in the person's timezone.
fn instant(properties: &Map<String, Value>, property: &str, zone: &TimeZone) -> Option<Timestamp> {
    let keys: Vec<String> =
        property.strip_prefix("properties.").unwrap_or(property).split('.').map(str::to_owned).collect();
    let Actual::Json(Value::String(text)) = eval::property(properties, &keys) else { return None };
    if text.len() == 10 {
        time::parse(text)?;
        return at(text.parse().ok()?, Time::midnight(), zone);
    }
    time::parse(text)
}

/// When a trigger's date comes for a person next, after `now`; none where it does not.
pub fn next_coming(
    trigger: &DateTrigger,
    properties: &Map<String, Value>,
    zone: &TimeZone,
    now: Timestamp,
) -> Option<Timestamp> {
    let time = trigger.time.as_deref().and_then(time_of_day);
    let first = instant(properties, &trigger.property, zone)?;
    let on = |at: Timestamp| {
        let moved = moved(at, trigger.offset)?;
        match time {
            None => Some(moved),
            Some(time) => self::at(moved.to_zoned(zone.clone()).date(), time, zone),
        }
    };
    if trigger.repeat == Repeat::Once {
        return on(first).filter(|at| *at > now);
    }
    let first = first.to_zoned(zone.clone());
    let this_year = now.to_zoned(zone.clone()).year();
    // The offset may move a date into a year beside its own; and the 29th of February comes on the 28th.
    (this_year - 2..=this_year + 2).find_map(|year| {
        let years = (i32::from(year) - i32::from(first.year())).years();
        on(first.checked_add(years).ok()?.timestamp()).filter(|at| *at > now)
    })
}

#[cfg(test)]
mod tests {
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
    fn the_next_time_of_day_is_that_of_the_persons_timezone() {
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
        // Clocks go from 02:00 to 03:00.
        let half_past_two = time_of_day("02:30").unwrap();
        assert_eq!(
            next_time(half_past_two, &zone("Europe/Oslo"), at("2026-03-29T00:00:00Z")),
            at("2026-03-29T01:30:00Z")
        );
    }

    #[test]
    fn a_date_moves_by_its_offset_and_to_its_time() {
        let person = properties(json!({"renewal": "2026-05-10", "a": {"b": "2026-05-10T10:00:00+02:00"}, "n": 5}));
        let oslo = zone("Europe/Oslo");
        let of = |property, offset, time: Option<&str>| {
            date_of(&person, property, offset, time.and_then(time_of_day), &oslo)
        };
        assert_eq!(of("renewal", 0.0, None), Some(at("2026-05-09T22:00:00Z")));
        assert_eq!(of("properties.renewal", -86_400.0, Some("09:00")), Some(at("2026-05-09T07:00:00Z")));
        assert_eq!(of("a.b", 3_600.0, None), Some(at("2026-05-10T09:00:00Z")));
        assert_eq!((of("n", 0.0, None), of("missing", 0.0, None)), (None, None));
    }

    #[test]
    fn a_yearly_date_comes_every_year() {
        let trigger = |repeat, offset: f64| DateTrigger {
            property: "birthday".to_owned(),
            offset,
            time: Some("09:00".to_owned()),
            repeat,
        };
        let next = |birthday: &str, repeat, offset, now: &str| {
            let person = properties(json!({"birthday": birthday}));
            next_coming(&trigger(repeat, offset), &person, &zone("Europe/Oslo"), at(now))
        };
        let yearly = Repeat::Yearly;
        assert_eq!(next("1990-06-01", yearly, 0.0, "2026-01-01T00:00:00Z"), Some(at("2026-06-01T07:00:00Z")));
        assert_eq!(next("1990-06-01", yearly, 0.0, "2026-06-01T07:00:00Z"), Some(at("2027-06-01T07:00:00Z")));
        assert_eq!(next("1992-02-29", yearly, 0.0, "2026-01-01T00:00:00Z"), Some(at("2026-02-28T08:00:00Z")));
        assert_eq!(next("1992-02-29", yearly, 0.0, "2027-12-01T00:00:00Z"), Some(at("2028-02-29T08:00:00Z")));
        assert_eq!(next("1990-01-02", yearly, -259_200.0, "2026-12-01T00:00:00Z"), Some(at("2026-12-30T08:00:00Z")));
        assert_eq!(next("2026-06-01", Repeat::Once, 0.0, "2026-01-01T00:00:00Z"), Some(at("2026-06-01T07:00:00Z")));
        assert_eq!(next("2026-06-01", Repeat::Once, 0.0, "2026-07-01T00:00:00Z"), None);
        assert_eq!(next("tomorrow", yearly, 0.0, "2026-01-01T00:00:00Z"), None);
    }
}
