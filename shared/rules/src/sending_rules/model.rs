//! Compares quiet hours with a model that checks the local time every minute.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

/// Timezones, each with the time of an unusual clock change.
const ZONES: [(&str, &str); 8] = [
    ("Europe/Berlin", "2026-03-29T01:00:00Z"),
    ("Europe/Berlin", "2026-10-25T01:00:00Z"),
    ("America/New_York", "2026-11-01T06:00:00Z"),
    // A change of half an hour, and midnights that are skipped or repeated.
    ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
    ("America/Sao_Paulo", "2017-10-15T03:00:00Z"),
    ("America/Sao_Paulo", "2018-02-18T02:00:00Z"),
    // A day that was skipped.
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),
    ("Asia/Kathmandu", "2026-06-01T00:00:00Z"),
];

/// Returns the local minute of the day.
fn local_minute(zone: &TimeZone, at: Timestamp) -> i64 {
    (at.as_second() + i64::from(zone.to_offset(at).seconds())).div_euclid(60).rem_euclid(1_440)
}

/// Returns the first minute after `now` that is not quiet, or `None` if `now` is not quiet.
fn quiet_until(start: i64, end: i64, zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
    let is_quiet = |at| {
        let minutes_in = (local_minute(zone, at) - start).rem_euclid(1_440);
        minutes_in < (end - start).rem_euclid(1_440)
    };
    let mut at = now;
    while is_quiet(at) {
        at += SignedDuration::from_mins(1);
    }
    (at > now).then_some(at)
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn quiet_hours_match_model(
        (name, odd) in prop::sample::select(ZONES.to_vec()),
        minutes in -1_600..1_600_i64,
        start in prop_oneof![0..1_440_i64, 1_260..1_440_i64, 60..150_i64],
        end in prop_oneof![0..1_440_i64, 0..240_i64],
        own in any::<bool>(),
    ) {
        let zone = TimeZone::get(name).unwrap();
        let now = odd.parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes);
        let text = |minute: i64| format!("{:02}:{:02}", minute / 60, minute % 60);
        let timezone = if own { "user" } else { name };
        let hours = QuietHours::from_value(
            &serde_json::json!({ "start": text(start), "end": text(end), "timezone": timezone }),
        );
        let found = hours.unwrap().until(now, own.then_some(name), &TimeZone::UTC);
        prop_assert_eq!(found, quiet_until(start, end, &zone, now), "{} {}-{} at {}", name, text(start), text(end), now);
    }
}
