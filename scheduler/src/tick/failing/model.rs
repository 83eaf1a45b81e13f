//! Random failures and successes of projects, compared with a log.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use uuid::Uuid;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Act {
    Fails(f64),
    Succeeds,
    /// Fails as soon as its backoff ends.
    FailsAgain(f64),
}

fn act() -> impl Strategy<Value = Act> {
    let random = || 0.0..=1.0_f64;
    prop_oneof![3 => random().prop_map(Act::Fails), 1 => Just(Act::Succeeds), 2 => random().prop_map(Act::FailsAgain)]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn one_rests_twice_as_long_after_each_failure_and_disturbs_nobody(
        acts in prop::collection::vec((0..40_000_u64, 0..3_usize, act()), 1..60),
    ) {
        let (failing, mut now) = (Failing::default(), Instant::now());
        let project = |which: usize| ProjectId(Uuid::from_u128(which as u128));
        // When each project failed since it last succeeded, and when its backoff ends.
        let mut log: [Vec<Instant>; 3] = Default::default();
        let mut until = [now; 3];
        for (pause_ms, which, act) in acts {
            now += Duration::from_millis(pause_ms);
            match act {
                Act::Fails(random) | Act::FailsAgain(random) => {
                    if matches!(act, Act::FailsAgain(_)) {
                        now = now.max(until[which]);
                        prop_assert!(!failing.rests_at(project(which), now), "backed off for longer than returned");
                    }
                    let rest = failing.failed_at(project(which), random, now);
                    log[which].push(now);
                    let whole = 1_u64.checked_shl(log[which].len() as u32 - 1).map_or(60, |secs| secs.min(60)) as f64;
                    let rest_s = rest.as_secs_f64();
                    prop_assert!(rest_s >= whole / 2.0 - 1e-6 && rest_s <= whole + 1e-6, "{} of {} s", rest_s, whole);
                    until[which] = now + rest;
                }
                Act::Succeeds => {
                    failing.healed(project(which));
                    log[which].clear();
                    until[which] = now;
                }
            }
            for (which, until) in until.iter().enumerate() {
                prop_assert_eq!(failing.rests_at(project(which), now), now < *until, "{} at {:?}", which, now);
            }
        }
    }
}
