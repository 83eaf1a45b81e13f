//! Compares recurrences with a model that checks the local date and time every minute.

use jiff::SignedDuration;
use jiff::civil::DateTime;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

/// The local times that an expression matches. An empty list matches every value.
#[derive(Clone, Debug)]
struct LocalPattern {
    minutes: Vec<i8>,
    hours: Vec<i8>,
    weekdays: Vec<i8>,
}

impl LocalPattern {
    fn written(&self) -> String {
        let list = |all: &[i8]| {
            if all.is_empty() { "*".to_owned() } else { all.iter().map(i8::to_string).collect::<Vec<_>>().join(",") }
        };
        format!("{} {} * * {}", list(&self.minutes), list(&self.hours), list(&self.weekdays))
    }

    fn shows(&self, wall: DateTime) -> bool {
        let allows = |all: &[i8], one: i8| all.is_empty() || all.contains(&one);
        allows(&self.minutes, wall.minute())
            && allows(&self.hours, wall.hour())
            && allows(&self.weekdays, wall.weekday().to_sunday_zero_offset())
    }
}

const ZONES: [(&str, &str); 6] = [
    ("Europe/Oslo", "2026-03-28T12:00:00Z"),
    ("Europe/Oslo", "2026-10-24T12:00:00Z"),
    ("America/New_York", "2026-10-31T18:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T00:00:00Z"),
    ("Asia/Kathmandu", "2026-06-01T00:00:00Z"),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// Due times strictly increase and include every matching local time when it first occurs. A due time that does not
    /// match occurs only after a gap.
    #[test]
    fn due_times_match_model(
        (name, begins) in prop::sample::select(ZONES.to_vec()),
        offset in 0..1_440_i64,
        second in 0..60_i64,
        minutes in prop::collection::vec(0..60_i8, 1..4),
        hours in prop::collection::vec(0..5_i8, 0..4),
        weekdays in prop::collection::vec(0..7_i8, 0..2),
    ) {
        let wall = LocalPattern { minutes, hours, weekdays };
        let zone = TimeZone::get(name).unwrap();
        let recurrence = Recurrence { cron: wall.written(), timezone: name.to_owned() };
        let start = begins.parse::<Timestamp>().unwrap() + SignedDuration::from_mins(offset);
        let end = start + SignedDuration::from_hours(36);
        let wall_at = |at: Timestamp| zone.to_datetime(at);
        let mut found = Vec::new();
        let mut at = start + SignedDuration::from_secs(second);
        while let Some(next) = recurrence.next_after(at).filter(|next| *next < end) {
            prop_assert!(next > at, "{} is not after {}", next, at);
            found.push(next);
            at = next;
        }
        let gap = |at: Timestamp| {
            let before = at - SignedDuration::from_hours(1);
            wall_at(at).duration_since(wall_at(before)) > SignedDuration::from_hours(1)
        };
        for at in &found {
            prop_assert!(wall.shows(wall_at(*at)) || gap(*at), "{} at {}", recurrence.cron, wall_at(*at));
        }
        let first = start + SignedDuration::from_secs(second);
        let mut minute = start;
        while minute < end {
            let before = minute - SignedDuration::from_hours(1);
            let again = wall_at(minute).duration_since(wall_at(before)) < SignedDuration::from_hours(1);
            if minute > first && wall.shows(wall_at(minute)) && !again {
                prop_assert!(found.contains(&minute), "{} skipped {}", recurrence.cron, wall_at(minute));
            }
            minute += SignedDuration::from_mins(1);
        }
    }
}
