//! Campaigns that are looked at at random moments, judged by their books.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use shared::clock::from_ms;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn no_stretch_sees_more_than_the_pace_and_what_is_looked_at_often_keeps_it(
        per_minute in prop_oneof![1..100_i64, 100..200_000_i64],
        looks in prop::collection::vec((1..3_000_i64, prop_oneof![4 => Just(100_000_i64), 1 => 0..50_i64]), 1..80),
    ) {
        let start = from_ms(1_790_000_000_000);
        let (mut now, mut paced_to) = (start, start);
        let a_second = (per_minute as f64 / 60.0).max(1.0);
        let mut book: Vec<(f64, f64)> = Vec::new();
        // What could have gone out by now: nothing is saved up for longer than a second, nor where there was no room.
        let mut due = 0.0_f64;
        for (pause_ms, room) in looks {
            now += SignedDuration::from_millis(pause_ms);
            let pace = Pace::new(Some(per_minute), paced_to, now, room);
            prop_assert!(pace.allowed >= 0 && pace.allowed <= room);
            due = (due + pause_ms as f64 / 60_000.0 * per_minute as f64).min(a_second);
            let released = pace.allowed as f64;
            prop_assert!((released - due.floor().min(room as f64)).abs() <= 1.0, "{} released, and {} were due", released, due);
            due -= released;
            paced_to = pace.after(pace.allowed);
            prop_assert!(paced_to <= now);
            book.push((now.duration_since(start).as_secs_f64() / 60.0, released));
        }
        for (first, (from, _)) in book.iter().enumerate() {
            let mut sum = 0.0;
            for (at, released) in &book[first..] {
                sum += released;
                let minutes = at - from;
                prop_assert!(sum <= a_second + minutes * per_minute as f64 + 1.0, "{} in {} minutes", sum, minutes);
            }
        }
    }
}
