//! Compares random backoffs with a model in whole nanoseconds.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn delays_match_model(
        initial_ms in 1..100_000_u64,
        factor in 1..12_u32,
        max_ms in 1..100_000_000_u64,
        failures in prop_oneof![8 => 0..40_u32, 1 => any::<u32>()],
        // Includes values outside its bounds.
        random in -0.5..1.5_f64,
    ) {
        let (initial, max) = (Duration::from_millis(initial_ms), Duration::from_millis(max_ms));
        let backoff = Backoff { initial, factor, max };
        let mut whole = initial.as_nanos();
        for _ in 1..failures.min(200) {
            whole = (whole * u128::from(factor)).min(max.as_nanos());
        }
        let whole = whole.min(max.as_nanos()) as f64;
        let delay = backoff.delay(failures, random).as_nanos() as f64;
        let expected = whole * (0.5 + random.clamp(0.0, 1.0) / 2.0);
        prop_assert!((delay - expected).abs() <= 1.0 + expected * 1e-9, "{} instead of {}", delay, expected);
        prop_assert!(delay + 1.0 >= whole / 2.0 && delay <= max.as_nanos() as f64);
        prop_assert!(backoff.delay(failures.saturating_add(1), random) >= backoff.delay(failures, random));
    }
}
