//! Clients that come and go at random, against a list of who is there.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;

use super::*;

/// Somebody comes to an inbox of a project, or one of those who are there goes.
fn act() -> impl Strategy<Value = Result<(u128, u128), Index>> {
    prop_oneof![3 => (0..3_u128, 0..3_u128).prop_map(Ok), 1 => any::<Index>().prop_map(Err)]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn places_are_given_as_long_as_there_are_some(most in 1..60_usize, acts in prop::collection::vec(act(), 1..150)) {
        let inboxes = Inboxes::new(most, Shutdown::new());
        let mut there: Vec<((u128, u128), Place)> = Vec::new();
        for act in acts {
            let (project, person) = match act {
                Ok(inbox) => inbox,
                Err(_) if there.is_empty() => continue,
                Err(who) => {
                    drop(there.swap_remove(who.index(there.len())));
                    continue;
                }
            };
            let count = |is: &dyn Fn(&(u128, u128)) -> bool| there.iter().filter(|(inbox, _)| is(inbox)).count();
            let is_full = count(&|_| true) == most;
            let has_too_many = count(&|inbox| inbox.0 == project) * 2 >= most || count(&|inbox| *inbox == (project, person)) == 10;
            let expected = if is_full { 503 } else if has_too_many { 429 } else { 200 };
            match inboxes.enter((ProjectId(Uuid::from_u128(project)), Uuid::from_u128(person))) {
                Ok(place) => {
                    prop_assert_eq!(expected, 200, "{} of {} are there", there.len(), most);
                    there.push(((project, person), place));
                }
                Err(refused) => prop_assert_eq!(refused.status().as_u16(), expected),
            }
        }
        there.clear();
        prop_assert!(locked(&inboxes.open).is_empty());
    }
}
