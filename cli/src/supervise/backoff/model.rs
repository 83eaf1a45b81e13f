//! A model of a process that keeps ending after random run times.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn it_is_started_soon_and_the_later_the_more_often_it_died_young(
        lives in prop::collection::vec(
            (
                prop_oneof![3 => 0..30_000_u64, 1 => 30_000..100_000_u64],
                prop::option::of(prop_oneof![Just(0), Just(1), prop::sample::select(HOPELESS.to_vec())]),
            ),
            1..80,
        ),
    ) {
        let mut deaths = Deaths::default();
        let mut lived: Vec<u64> = Vec::new();
        for (lived_ms, code) in lives {
            lived.push(lived_ms);
            let delay = deaths.next_delay(Duration::from_millis(lived_ms), code).as_millis();
            // Count from the last long run.
            let first = lived.iter().rposition(|lived_ms| *lived_ms >= 30_000).unwrap_or(0);
            let own = (first + 1..lived.len()).fold(200, |delay: u128, _| (delay * 2).min(5_000));
            let is_hopeless = code.is_some_and(|code| HOPELESS.contains(&code));
            prop_assert_eq!(delay, if is_hopeless { 5_000 } else { own }, "after {:?} with {:?}", lived, code);
        }
    }
}
