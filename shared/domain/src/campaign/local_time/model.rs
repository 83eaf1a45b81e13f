//! Checks send times against the local time in every timezone.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// Every timezone has the campaign's local time; if a clock change skips it, the send time is after the gap.
    #[test]
    fn local_times_match_model(
        home in prop::sample::select(vec!["UTC", "Europe/Oslo", "America/New_York", "Pacific/Auckland", "Asia/Kathmandu"]),
        minute in 0..2 * 525_600_i64,
        begun_behind in -1_500..1_500_i64,
    ) {
        let home = TimeZone::get(home).unwrap();
        let scheduled_for = Timestamp::from_second(1_767_225_600 + minute * 60).unwrap();
        let wall = home.to_datetime(scheduled_for);
        let begun = scheduled_for + SignedDuration::from_mins(begun_behind);
        let (times, from) = (LocalTimes::of(scheduled_for, &home), LocalTimes::from(begun, scheduled_for, &home));
        prop_assert_eq!(times.by_zone.len(), from.by_zone.len());
        let day = SignedDuration::from_hours(24);
        for ((name, at), (_, later)) in times.by_zone.iter().zip(&from.by_zone) {
            let zone = TimeZone::get(name).unwrap();
            let shown = zone.to_datetime(*at);
            let earlier = zone.to_datetime(*at - SignedDuration::from_hours(2));
            let is_gap = shown.duration_since(earlier) > SignedDuration::from_hours(2);
            prop_assert!(shown == wall || (is_gap && shown > wall), "{} in {} for {}", shown, name, wall);
            prop_assert!(at.duration_since(times.first()) <= MAX_ZONE_SPREAD, "{} in {}", at, name);
            // No send time is later than `MAX_START_DELAY`; one that was moved to the next day is about a day later.
            let moved = later.duration_since(*at);
            let is_late = begun.duration_since(*at) > MAX_START_DELAY;
            let is_next_day = (moved - day).abs() <= SignedDuration::from_hours(2);
            prop_assert!(if is_late { is_next_day } else { moved.is_zero() }, "{} later in {}", moved, name);
        }
    }
}
