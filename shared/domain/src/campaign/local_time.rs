//! Send times of campaigns that use the users' local time. Pure.

use std::collections::BTreeMap;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::MAX_START_DELAY;

/// Longest time between the first and the last timezone to reach the same local time.
pub const MAX_ZONE_SPREAD: SignedDuration = SignedDuration::from_hours(26);

/// The timestamps of one local time in all timezones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalTimes {
    /// Timestamps by the timezone's name in lower case.
    by_zone: BTreeMap<String, Timestamp>,
    /// For users without a timezone, or with an unknown one.
    pub default_time: Timestamp,
}

impl LocalTimes {
    /// Returns when each timezone has the local time that `home` has at `scheduled_for`, on the same date even if it
    /// has passed.
    pub fn of(scheduled_for: Timestamp, home: &TimeZone) -> Self {
        Self::with(scheduled_for, home, at)
    }

    /// Like [`Self::of`], for a campaign that starts at `begun`.
    ///
    /// If a time passed more than [`MAX_START_DELAY`] before, it moves to the next day, so that users do not get a morning
    /// message at night.
    /// A time that passed more recently stays, and the message is sent at once.
    pub fn from(begun: Timestamp, scheduled_for: Timestamp, home: &TimeZone) -> Self {
        Self::with(scheduled_for, home, |wall, zone| {
            let time = at(wall, zone)?;
            if begun.duration_since(time) <= MAX_START_DELAY { Some(time) } else { at(wall.tomorrow().ok()?, zone) }
        })
    }

    fn with(
        scheduled_for: Timestamp,
        home: &TimeZone,
        time: impl Fn(DateTime, &TimeZone) -> Option<Timestamp>,
    ) -> Self {
        let wall = scheduled_for.to_zoned(home.clone()).datetime();
        let names = jiff::tz::db().available();
        let by_zone = names.filter_map(|name| {
            let zone = TimeZone::get(name.as_str()).ok()?;
            Some((name.as_str().to_lowercase(), time(wall, &zone)?))
        });
        Self { by_zone: by_zone.collect(), default_time: time(wall, home).unwrap_or(scheduled_for) }
    }

    /// Returns the earliest time.
    pub fn first(&self) -> Timestamp {
        self.by_zone.values().copied().chain([self.default_time]).min().unwrap_or(self.default_time)
    }

    /// Returns the names of the timezones in lower case, and their times.
    pub fn columns(&self) -> (Vec<&str>, Vec<Timestamp>) {
        self.by_zone.iter().map(|(name, time)| (name.as_str(), *time)).unzip()
    }
}

/// Returns the timestamp of a local time. A skipped local time moves past the gap. A repeated one resolves to its first
/// occurrence.
fn at(wall: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    Some(wall.to_zoned(zone.clone()).ok()?.timestamp())
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).unwrap()
    }

    fn of(times: &LocalTimes, name: &str) -> Timestamp {
        times.by_zone[name]
    }

    #[test]
    fn every_timezone_has_same_local_time() {
        // 09:00 in Oslo.
        let times = LocalTimes::of(time("2026-06-15T07:00:00Z"), &zone("Europe/Oslo"));
        for (name, expected) in [
            ("europe/oslo", "2026-06-15T07:00:00Z"),
            ("asia/tokyo", "2026-06-15T00:00:00Z"),
            ("america/new_york", "2026-06-15T13:00:00Z"),
            ("asia/kolkata", "2026-06-15T03:30:00Z"),
            ("utc", "2026-06-15T09:00:00Z"),
        ] {
            assert_eq!(of(&times, name), time(expected), "{name}");
        }
        assert_eq!(times.default_time, time("2026-06-15T07:00:00Z"));
        assert_eq!(times.first(), time("2026-06-14T19:00:00Z"), "the time on Kiritimati is the earliest");
        assert!(times.by_zone.values().all(|t| t.duration_since(times.first()) <= MAX_ZONE_SPREAD));
        let (names, at) = times.columns();
        assert!(names.len() > 400 && names.len() == at.len());
    }

    #[test]
    fn clock_changes_are_respected() {
        // 02:30 in the night in which Oslo skips it; the campaign's timezone is New York.
        let times = LocalTimes::of(time("2026-03-29T06:30:00Z"), &zone("America/New_York"));
        assert_eq!(of(&times, "europe/oslo"), time("2026-03-29T01:30:00Z"));
        assert_eq!(of(&times, "africa/lagos"), time("2026-03-29T01:30:00Z"));
        // And in the night in which Oslo repeats it.
        let times = LocalTimes::of(time("2026-10-25T02:30:00Z"), &TimeZone::UTC);
        assert_eq!(of(&times, "europe/oslo"), time("2026-10-25T00:30:00Z"));
    }

    #[test]
    fn long_past_times_move_to_next_day() {
        // Started at noon in London, for that same time.
        let now = time("2026-01-15T12:00:00Z");
        let times = LocalTimes::from(now, now, &zone("Europe/London"));
        for (name, expected) in [
            ("europe/berlin", "2026-01-15T11:00:00Z"),
            ("asia/almaty", "2026-01-15T07:00:00Z"),
            ("asia/tokyo", "2026-01-16T03:00:00Z"),
            ("america/new_york", "2026-01-15T17:00:00Z"),
        ] {
            assert_eq!(of(&times, name), time(expected), "{name}");
        }
        assert_eq!(times.default_time, now);
        // The next day has its own offset.
        let eve = time("2026-03-28T20:00:00Z");
        let times = LocalTimes::from(eve, eve, &zone("America/Los_Angeles"));
        assert_eq!(of(&times, "europe/oslo"), time("2026-03-29T11:00:00Z"));
    }
}
