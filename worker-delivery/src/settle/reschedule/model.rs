//! Messages whose providers fail at random: how often each is tried, and over how long.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

fn delay() -> impl Strategy<Value = Duration> {
    prop_oneof![0..600_u64, 0..1_000_000_u64].prop_map(Duration::from_secs)
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn a_message_is_given_up_after_eight_attempts_and_what_a_provider_wishes_is_heard(
        tries in prop::collection::vec((0.0..=1.0_f64, prop::option::of(delay())), 20),
    ) {
        let (mut own, mut attempts) = (Duration::ZERO, 1);
        for (failures, (random, hint)) in (0..).zip(tries) {
            let without = after_failure(failures, None, random);
            let with = after_failure(failures, hint, random);
            prop_assert_eq!(with.is_some(), without.is_some(), "a wish gives nothing up and keeps nothing");
            let (Some(without), Some(with)) = (without, with) else { break };
            attempts += 1;
            own += without;
            prop_assert!(with >= without && with <= without.max(HINT_MOST));
            let is_heard = hint.is_none_or(|hint| with >= hint || hint > HINT_MOST && with == HINT_MOST);
            prop_assert!(is_heard, "{:?} and not {:?}", with, hint);
            prop_assert!(hint.is_some() || with == without);
        }
        prop_assert_eq!(attempts, FAILURES);
        let hours = own.as_secs_f64() / 3_600.0;
        prop_assert!((3.5..8.0).contains(&hours), "{} hours", hours);
    }

    #[test]
    fn what_waits_for_the_same_end_comes_back_after_it_and_spread_out(
        after in delay(),
        random in 0.0..=1.0_f64,
        lane in prop::sample::select(Lane::ALL.to_vec()),
    ) {
        let spread = Duration::from_secs(if lane == Lane::Direct { 1 } else { 10 });
        for (delay, end, most) in [
            (while_held(random), HELD, Duration::from_secs(10)),
            (while_open(after, random), after, Duration::from_secs(10)),
            (while_limited(after, lane, random), after, spread),
            (while_quiet(after, random), after, Duration::from_mins(1)),
        ] {
            prop_assert!(delay >= end && delay <= end + most, "{:?} for {:?}", delay, end);
            let part = delay.saturating_sub(end).as_secs_f64() / most.as_secs_f64();
            prop_assert!((part - random).abs() < 1e-6, "{:?} is not {} of the way", delay, random);
        }
    }

    /// By calls of unknown outcome, one after the other: no more copies can go out than are allowed.
    #[test]
    fn a_call_of_unknown_outcome_is_repeated_just_as_often_as_allowed(retries in 0..10_i32) {
        let calls = 1 + (1..100).take_while(|ambiguous| after_unknown(*ambiguous, retries).is_some()).count();
        prop_assert_eq!(calls, 1 + usize::try_from(retries).unwrap());
    }

    #[test]
    fn a_user_is_looked_for_until_the_wait_is_over_and_not_longer(
        start_ms in 0..60_000_u64,
        randoms in prop::collection::vec(0.0..=1.0_f64, 60),
    ) {
        let mut age = Duration::from_millis(start_ms);
        let last = age.max(USER_WAIT);
        let mut looks = 0;
        for (attempt, random) in (0..).zip(randoms) {
            let Some(delay) = while_user_unknown(age, attempt, random) else { break };
            prop_assert!(!delay.is_zero() && delay <= Duration::from_secs(8));
            age += delay;
            looks += 1;
            prop_assert!(age <= USER_WAIT, "{:?}", age);
        }
        prop_assert!(while_user_unknown(age, looks, 0.5).is_none(), "still after {} looks", looks);
        // The last look is at the very end.
        prop_assert_eq!(age, last);
    }
}
