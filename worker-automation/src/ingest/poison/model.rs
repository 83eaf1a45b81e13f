//! Batches in which some items fail alone, some only together, and some are slow. Only the first kind must be found.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn bisection_finds_exactly_the_items_that_fail_alone(
        items in 0..200_usize,
        bad in prop::collection::btree_set(0..200_usize, 0..6),
        // Fail if both are tried.
        pairs in prop::collection::vec((0..200_usize, 0..200_usize), 0..4),
        // Attempts with more than `most` items are too slow, as is each item in `slow` alone.
        most in prop_oneof![Just(usize::MAX), 1..100_usize],
        slow in prop::collection::btree_set(0..200_usize, 0..4),
        skip in prop::collection::hash_set(0..200_usize, 0..6),
    ) {
        let tried = Cell::new(0);
        let attempt = |others: HashSet<usize>| {
            tried.set(tried.get() + 1);
            let part: Vec<usize> = (0..items).filter(|item| !others.contains(item)).collect();
            let has = |item: &usize| part.contains(item);
            let outcome = if part.iter().any(|item| skip.contains(item)) {
                Err(Failure::Transient("a skipped item was tried".to_owned()))
            } else if part.len() > most || part.iter().any(|item| slow.contains(item)) {
                Err(Failure::TooSlow(String::new()))
            } else if let Some(item) = part.iter().find(|item| bad.contains(item)) {
                Err(Failure::Data(format!("by {item}")))
            } else if pairs.iter().any(|(one, other)| one != other && has(one) && has(other)) {
                Err(Failure::Data("by a pair".to_owned()))
            } else {
                Ok(())
            };
            std::future::ready(outcome)
        };
        let found = pin!(bisect(items, &skip, attempt)).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(found) = found else { return Err(TestCaseError::fail("it waits for a retry")) };
        let is_culprit = |item: &usize| *item < items && !skip.contains(item) && !slow.contains(item);
        let culprits: Vec<(usize, String)> =
            bad.iter().copied().filter(is_culprit).map(|item| (item, format!("by {item}"))).collect();
        prop_assert_eq!(found, culprits, "in order, each with its own reason");
        // No more attempts than bisection needs for all items that can make a part fail.
        let odd: BTreeSet<usize> = bad.iter().chain(&slow).chain(pairs.iter().flat_map(|(one, other)| [one, other])).copied().collect();
        let depth = (items.max(1).next_power_of_two().ilog2() + 1) as usize;
        let small = if most < items { 4 * items / most } else { 0 };
        prop_assert!(tried.get() <= 1 + 2 * depth * odd.len() + small, "{} attempts", tried.get());
    }
}
