//! Compares the memory of recent events with a list of all events.

use kernel::ids;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// The last eight events are always remembered. Hardly any unrecorded event is taken for a recorded one.
    #[test]
    fn recent_events_are_remembered_and_others_are_not(
        batches in prop::collection::vec((0..3_u128, prop::collection::vec(any::<u128>(), 1..300)), 1..12),
        strangers in prop::collection::vec(any::<u128>(), 300),
    ) {
        let recent = RecentEvents::default();
        let mut all: Vec<(ProjectId, Uuid)> = Vec::new();
        let id = |random: u128| ids::timed(1_790_000_000_000, random.to_be_bytes()[..10].try_into().unwrap());
        for (project, batch) in batches {
            let project = ProjectId(Uuid::from_u128(project));
            let batch: Vec<_> = batch.into_iter().map(|random| (project, id(random))).collect();
            recent.remember(&batch);
            all.extend(batch);
            let last = all.iter().rev().take(8).copied();
            prop_assert!(recent.are_suspect(last).into_iter().all(|is_suspect| is_suspect));
        }
        // A few thousand events evict hardly anything from a memory of this size.
        let known = recent.are_suspect(all.iter().copied());
        prop_assert_eq!(known.iter().filter(|is_suspect| !**is_suspect).count(), 0);
        let fresh = strangers.into_iter().map(|random| (ProjectId(Uuid::from_u128(9)), id(random)));
        prop_assert!(recent.are_suspect(fresh).into_iter().filter(|is_suspect| *is_suspect).count() <= 1);
    }

    /// A mistake suspends trust, for twice as long after each further mistake that follows soon, but never for longer
    /// than 1,024 transactions.
    #[test]
    fn trust_returns_after_the_suspension(goes in prop::collection::vec((0..3_000_u32, 1..4_u32), 1..12)) {
        let mut trust = Trust::default();
        let mut last = 0_u32;
        for (successes, mistakes) in goes {
            prop_assert!((0..successes).all(|_| trust.check()), "trust must not be suspended here");
            // Includes the call that found trust restored.
            if successes >= 1_024 {
                last = 0;
            }
            for _ in 0..mistakes {
                trust.record_mistake();
                last = if last == 0 { 4 } else { (last * 2).min(1_024) };
            }
            let without = (0..5_000).take_while(|_| !trust.check()).count();
            prop_assert_eq!(without, last as usize);
        }
    }
}
