//! Random failures and successes of projects, compared with a log.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use uuid::Uuid;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Action {
    Fails(f64),
    Succeeds,
    /// Fails as soon as its backoff ends.
    FailsAgain(f64),
}

fn action() -> impl Strategy<Value = Action> {
    let random = || 0.0..=1.0_f64;
    prop_oneof![3 => random().prop_map(Action::Fails), 1 => Just(Action::Succeeds), 2 => random().prop_map(Action::FailsAgain)]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn backoff_doubles_and_affects_no_other_project(
        actions in prop::collection::vec((0..40_000_u64, 0..3_usize, action()), 1..60),
    ) {
        let (backoff, mut now) = (ProjectBackoff::default(), Instant::now());
        let project = |which: usize| ProjectId(Uuid::from_u128(which as u128));
        // When each project failed since it last succeeded, and when its backoff ends.
        let mut log: [Vec<Instant>; 3] = Default::default();
        let mut until = [now; 3];
        for (pause_ms, which, action) in actions {
            now += Duration::from_millis(pause_ms);
            match action {
                Action::Fails(random) | Action::FailsAgain(random) => {
                    if matches!(action, Action::FailsAgain(_)) {
                        now = now.max(until[which]);
                        prop_assert!(!backoff.is_backed_off_at(project(which), now), "backed off for longer than returned");
                    }
                    let delay = backoff.failed_at(project(which), random, now);
                    log[which].push(now);
                    let whole = 1_u64.checked_shl(log[which].len() as u32 - 1).map_or(60, |secs| secs.min(60)) as f64;
                    let delay_s = delay.as_secs_f64();
                    prop_assert!(delay_s >= whole / 2.0 - 1e-6 && delay_s <= whole + 1e-6, "{} of {} s", delay_s, whole);
                    until[which] = now + delay;
                }
                Action::Succeeds => {
                    backoff.succeeded(project(which));
                    log[which].clear();
                    until[which] = now;
                }
            }
            for (which, until) in until.iter().enumerate() {
                prop_assert_eq!(backoff.is_backed_off_at(project(which), now), now < *until, "{} at {:?}", which, now);
            }
        }
    }
}
