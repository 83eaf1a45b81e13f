//! Owners take and release slots at random, compared with a list of the slots held.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;
use uuid::Uuid;

use super::*;

#[derive(Clone, Debug)]
enum Act {
    Take(u128),
    Release(Index),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![3 => (0..4_u128).prop_map(Act::Take), 2 => any::<Index>().prop_map(Act::Release)]
}

fn owner(n: u128) -> OwnerId {
    OwnerId(Uuid::from_u128(n))
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn owner_gets_a_slot_while_below_its_limit_and_the_free_slots(
        capacity in 1..12_usize,
        per_owner in 1..6_usize,
        acts in prop::collection::vec(act(), 1..80),
    ) {
        let slots = Slots::new(capacity, per_owner);
        let mut held: Vec<(OwnerId, Slot)> = Vec::new();
        for act in acts {
            match act {
                Act::Take(n) => {
                    let own = held.iter().filter(|(of, _)| *of == owner(n)).count();
                    let free = capacity - held.len();
                    match slots.take(owner(n)) {
                        Ok(slot) => {
                            prop_assert!(own < per_owner && own < free);
                            held.push((owner(n), slot));
                        }
                        Err(NoSlot::Owner) => prop_assert!(own >= per_owner || (free > 0 && own >= free), "{} of {}", own, free),
                        Err(NoSlot::Gateway) => prop_assert!(own < per_owner && free == 0),
                    }
                }
                Act::Release(which) if !held.is_empty() => drop(held.swap_remove(which.index(held.len()))),
                Act::Release(_) => {}
            }
            prop_assert_eq!(slots.taken(), held.len());
        }
        held.clear();
        prop_assert!(locked(&slots.held).by_owner.is_empty(), "owners without slots are removed");
    }

    /// An owner without a slot is served while at most `busy` other owners hold slots: each takes at most half of the free slots.
    #[test]
    fn new_owner_is_served_while_others_take_all_they_can(
        capacity in 2..3_000_usize,
        per_owner in 1..3_000_usize,
    ) {
        let slots = Slots::new(capacity, per_owner);
        let mut held = Vec::new();
        let busy = usize::BITS - 1 - capacity.leading_zeros();
        for n in 1..=u128::from(busy) {
            held.extend(std::iter::from_fn(|| slots.take(owner(n)).ok()));
            prop_assert!(slots.take(owner(0)).is_ok(), "with {} of {} busy owners", n, busy);
        }
    }
}
