//! Compares the parser of times with the library that formats them.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn formatted_times_round_trip(
        seconds in -62_000_000_000..253_000_000_000_i64,
        micros in prop_oneof![Just(0), 0..1_000_000_i32],
        offset_minutes in -840..=840_i32,
        separator in prop::sample::select(vec!['T', ' ']),
    ) {
        let at = Timestamp::new(seconds, 0).unwrap().checked_add(SignedDuration::from_micros(micros.into())).unwrap();
        let offset = Offset::from_seconds(offset_minutes * 60).unwrap();
        let wall = offset.to_datetime(at);
        let sign = if offset_minutes < 0 { '-' } else { '+' };
        let (hours, minutes) = (offset_minutes.abs() / 60, offset_minutes.abs() % 60);
        let text = format!("{}{separator}{}{sign}{hours:02}:{minutes:02}", wall.date(), wall.time());
        prop_assert_eq!(parse(&text), Some(at), "{}", text);
        // Without an offset the time is in UTC, as with a `Z`; a date alone is its midnight.
        let plain = at.to_string();
        prop_assert_eq!(parse(&plain), Some(at), "{}", plain);
        prop_assert_eq!(parse(plain.trim_end_matches('Z')), Some(at), "{}", plain);
        let day = Offset::UTC.to_datetime(at).date();
        let midnight = Offset::UTC.to_timestamp(day.to_datetime(Time::midnight())).unwrap();
        prop_assert_eq!(parse(&day.to_string()), Some(midnight), "{}", day);
    }

    /// Every text that is parsed yields the same time as the library.
    #[test]
    fn parsed_times_agree_with_library(
        text in "[0-9]{3,4}-[01][0-9]-[0-3][0-9]([T ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{0,10})?(Z|[+-][01][0-9]:[0-6][0-9])?)?",
    ) {
        let Some(found) = parse(&text) else { return Ok(()) };
        let written = if text.len() == 10 {
            format!("{text}T00:00:00Z")
        } else if text.ends_with('Z') || text[text.len() - 6..].starts_with(['+', '-']) {
            text.clone()
        } else {
            format!("{text}Z")
        };
        let other: Timestamp = written.parse().unwrap();
        prop_assert!(found <= other && other.duration_since(found) < SignedDuration::from_micros(1), "{} as {}", text, found);
    }
}
