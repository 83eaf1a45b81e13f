//! A model of a process that keeps ending after random run times.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn restart_delay_grows_with_consecutive_short_runs(
        runs in prop::collection::vec(
            (
                prop_oneof![3 => 0..30_000_u64, 1 => 30_000..100_000_u64],
                prop::option::of(prop_oneof![Just(0), Just(1), prop::sample::select(PERMANENT_EXIT_CODES.to_vec())]),
            ),
            1..80,
        ),
    ) {
        let mut backoff = RestartBackoff::default();
        let mut run_time: Vec<u64> = Vec::new();
        for (run_time_ms, code) in runs {
            run_time.push(run_time_ms);
            let delay = backoff.next_delay(Duration::from_millis(run_time_ms), code).as_millis();
            // Count from the last long run.
            let first = run_time.iter().rposition(|run_time_ms| *run_time_ms >= 30_000).unwrap_or(0);
            let own = (first + 1..run_time.len()).fold(200, |delay: u128, _| (delay * 2).min(5_000));
            let is_permanent = code.is_some_and(|code| PERMANENT_EXIT_CODES.contains(&code));
            prop_assert_eq!(delay, if is_permanent { 5_000 } else { own }, "after {:?} with {:?}", run_time, code);
        }
    }
}
