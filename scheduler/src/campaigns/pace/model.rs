//! A campaign that is checked at random times, compared with a log of its releases.

use kernel::clock::from_ms;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn releases_never_exceed_the_pace_and_frequent_checks_reach_it(
        per_minute in prop_oneof![1..100_i64, 100..200_000_i64],
        checks in prop::collection::vec((1..3_000_i64, prop_oneof![4 => Just(100_000_i64), 1 => 0..50_i64]), 1..80),
    ) {
        let start = from_ms(1_790_000_000_000);
        let (mut now, mut paced_to) = (start, start);
        let a_second = (per_minute as f64 / 60.0).max(1.0);
        let mut log: Vec<(f64, f64)> = Vec::new();
        // Expected allowance: nothing carries over for longer than a second.
        let mut due = 0.0_f64;
        for (pause_ms, capacity) in checks {
            now += SignedDuration::from_millis(pause_ms);
            let pace = Pace::new(Some(per_minute), paced_to, now, capacity);
            prop_assert!(pace.allowed >= 0 && pace.allowed <= capacity);
            due = (due + pause_ms as f64 / 60_000.0 * per_minute as f64).min(a_second);
            let released = pace.allowed as f64;
            prop_assert!((released - due.floor().min(capacity as f64)).abs() <= 1.0, "{} released, and {} were due", released, due);
            due -= released;
            paced_to = pace.after(pace.allowed);
            prop_assert!(paced_to <= now);
            log.push((now.duration_since(start).as_secs_f64() / 60.0, released));
        }
        for (first, (from, _)) in log.iter().enumerate() {
            let mut sum = 0.0;
            for (at, released) in &log[first..] {
                sum += released;
                let minutes = at - from;
                prop_assert!(sum <= a_second + minutes * per_minute as f64 + 1.0, "{} in {} minutes", sum, minutes);
            }
        }
    }
}
