//! Clients connect and disconnect at random, compared with a list of the open streams.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;

use super::*;

/// Generates a client that opens the inbox of a user in a project, or an open stream to close.
fn act() -> impl Strategy<Value = Result<(u128, u128), Index>> {
    prop_oneof![3 => (0..4_u128, 0..3_u128).prop_map(Ok), 1 => any::<Index>().prop_map(Err)]
}

/// Each owner has two projects.
fn owner_of(project: u128) -> u128 {
    project / 2
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn stream_limits_match_the_model(
        capacity in 1..60_usize,
        acts in prop::collection::vec(act(), 1..150),
    ) {
        let inbox_streams = InboxStreams::new(capacity, Shutdown::new());
        let mut opened: Vec<((u128, u128), StreamSlot)> = Vec::new();
        for act in acts {
            let (project, user) = match act {
                Ok(inbox) => inbox,
                Err(_) if opened.is_empty() => continue,
                Err(which) => {
                    drop(opened.swap_remove(which.index(opened.len())));
                    continue;
                }
            };
            let count = |is: &dyn Fn(&(u128, u128)) -> bool| opened.iter().filter(|(inbox, _)| is(inbox)).count();
            let own = count(&|inbox| owner_of(inbox.0) == owner_of(project));
            let free = capacity - opened.len();
            let expected = if count(&|inbox| *inbox == (project, user)) == PER_INBOX || own == capacity {
                429
            } else if free == 0 {
                503
            } else if own >= free {
                429
            } else {
                200
            };
            let inbox = (ProjectId(Uuid::from_u128(project)), Uuid::from_u128(user));
            match inbox_streams.claim(inbox, OwnerId(Uuid::from_u128(owner_of(project)))) {
                Ok(slot) => {
                    prop_assert_eq!(expected, 200, "{} of {} are open", opened.len(), capacity);
                    opened.push(((project, user), slot));
                }
                Err(refused) => prop_assert_eq!(refused.status().as_u16(), expected),
            }
        }
        opened.clear();
        prop_assert!(locked(&inbox_streams.open).is_empty() && inbox_streams.slots.taken() == 0);
    }
}
