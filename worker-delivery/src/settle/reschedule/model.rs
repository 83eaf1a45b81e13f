//! Messages whose providers fail at random: number of attempts and total delay.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

fn delay() -> impl Strategy<Value = Duration> {
    prop_oneof![0..600_u64, 0..1_000_000_u64].prop_map(Duration::from_secs)
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn message_fails_after_eight_attempts_and_retry_after_is_respected(
        tries in prop::collection::vec((0.0..=1.0_f64, prop::option::of(delay())), 20),
    ) {
        let (mut own, mut attempts) = (Duration::ZERO, 1);
        for (failures, (random, hint)) in (0..).zip(tries) {
            let without = after_failure(failures, None, random);
            let with = after_failure(failures, hint, random);
            prop_assert_eq!(with.is_some(), without.is_some(), "the hint changes the number of attempts");
            let (Some(without), Some(with)) = (without, with) else { break };
            attempts += 1;
            own += without;
            prop_assert!(with >= without && with <= without.max(MAX_RETRY_AFTER));
            let is_respected = hint.is_none_or(|hint| with >= hint || hint > MAX_RETRY_AFTER && with == MAX_RETRY_AFTER);
            prop_assert!(is_respected, "{:?} instead of {:?}", with, hint);
            prop_assert!(hint.is_some() || with == without);
        }
        prop_assert_eq!(attempts, MAX_FAILURES);
        let hours = own.as_secs_f64() / 3_600.0;
        prop_assert!((3.5..8.0).contains(&hours), "{} hours", hours);
    }

    #[test]
    fn deferred_messages_return_after_the_end_with_jitter(
        after in delay(),
        random in 0.0..=1.0_f64,
        lane in prop::sample::select(Lane::ALL.to_vec()),
    ) {
        let spread = Duration::from_secs(if lane == Lane::Direct { 1 } else { 10 });
        for (delay, end, max) in [
            (while_held(random), MISCONFIGURED_DELAY, Duration::from_secs(10)),
            (while_open(after, random), after, Duration::from_secs(10)),
            (while_limited(after, lane, random), after, spread),
            (while_quiet(after, random), after, Duration::from_mins(1)),
        ] {
            prop_assert!(delay >= end && delay <= end + max, "{:?} for {:?}", delay, end);
            let part = delay.saturating_sub(end).as_secs_f64() / max.as_secs_f64();
            prop_assert!((part - random).abs() < 1e-6, "the jitter of {:?} is not {}", delay, random);
        }
    }

    #[test]
    fn call_with_unknown_outcome_is_repeated_exactly_as_often_as_allowed(retries in 0..10_i32) {
        let calls = 1 + (1..100).take_while(|ambiguous| after_unknown(*ambiguous, retries).is_some()).count();
        prop_assert_eq!(calls, 1 + usize::try_from(retries).unwrap());
    }

    #[test]
    fn user_is_awaited_exactly_until_the_limit(
        start_ms in 0..60_000_u64,
        randoms in prop::collection::vec(0.0..=1.0_f64, 60),
    ) {
        let mut age = Duration::from_millis(start_ms);
        let last = age.max(USER_WAIT);
        let mut checks = 0;
        for (attempt, random) in (0..).zip(randoms) {
            let Some(delay) = while_user_unknown(age, attempt, random) else { break };
            prop_assert!(!delay.is_zero() && delay <= Duration::from_secs(8));
            age += delay;
            checks += 1;
            prop_assert!(age <= USER_WAIT, "{:?}", age);
        }
        prop_assert!(while_user_unknown(age, checks, 0.5).is_none(), "still after {} checks", checks);
        // The last check is exactly at the limit.
        prop_assert_eq!(age, last);
    }
}
