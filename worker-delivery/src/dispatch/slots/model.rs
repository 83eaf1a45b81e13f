//! Random projects that take and release slots, against a list of who holds what.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use uuid::Uuid;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Act {
    Take(Lane),
    /// The call of one of those that are held ends.
    End(prop::sample::Index),
    /// One of those that are begun is written down, whether its call has ended or not.
    Settle(prop::sample::Index),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => prop::sample::select(Lane::ALL.to_vec()).prop_map(Act::Take),
        2 => any::<prop::sample::Index>().prop_map(Act::End),
        1 => any::<prop::sample::Index>().prop_map(Act::Settle),
    ]
}

/// A message of a project, with its place until its call has ended.
struct Message {
    project: u128,
    place: Option<Pool>,
}

/// An owner with one project.
fn tenant(n: u128) -> Tenant {
    let project = ProjectId(Uuid::from_u128(n));
    Tenant { owner: project.into(), project, channel: Channel::Push }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn places_are_neither_lost_nor_made_and_who_has_none_gets_one(
        total in 2..40_usize,
        acts in prop::collection::vec((0..5_u128, act()), 1..300),
    ) {
        let mut slots = Slots::new(total);
        let mut book: Vec<Message> = Vec::new();
        let direct = (total / 4).max(1);
        for (project, act) in acts {
            let of = tenant(project);
            match act {
                Act::Take(lane) => {
                    // Of each pool: how many one may hold, how many places there are, and what is taken of them.
                    let holds = |pool: Pool| {
                        let alone = if pool == Pool::Direct { direct } else { (total - direct).max(1) };
                        let places = alone + alone.div_ceil(8);
                        let of = |whose: Option<u128>| {
                            let is_of = |m: &&Message| m.place == Some(pool) && whose.is_none_or(|p| p == m.project);
                            book.iter().filter(is_of).count()
                        };
                        (alone, places - of(None), of(Some(project)))
                    };
                    let pools = if lane == Lane::Direct { vec![Pool::Direct, Pool::Common] } else { vec![Pool::Common] };
                    let taken = slots.take(lane, of);
                    if let Some(pool) = taken {
                        let (alone, free, own) = holds(pool);
                        prop_assert!(pools.contains(&pool) && free > 0, "a place that there is not");
                        prop_assert!(own < alone && own < 8 * free, "{} held of {}, {} free", own, alone, free);
                        book.push(Message { project, place: Some(pool) });
                    } else {
                        for pool in pools {
                            let (alone, free, own) = holds(pool);
                            prop_assert!(free == 0 || own > 0, "nothing for who has nothing, and {} free", free);
                            prop_assert!(own >= alone.min(8 * free), "{} of {}, and {} free", own, alone, free);
                        }
                    }
                }
                Act::End(which) => {
                    let held: Vec<_> = book.iter_mut().filter(|m| m.place.is_some()).collect();
                    if let Some(message) = (!held.is_empty()).then(|| which.index(held.len())).and_then(|i| held.into_iter().nth(i)) {
                        let place = message.place.take().unwrap();
                        slots.release(place, tenant(message.project));
                    }
                }
                Act::Settle(which) => {
                    if !book.is_empty() {
                        let message = book.remove(which.index(book.len()));
                        let of = tenant(message.project);
                        if let Some(place) = message.place {
                            slots.release(place, of);
                        }
                        prop_assert!(!slots.settled(of.project), "it was never full");
                    }
                }
            }
        }
        // When all is given back, everybody finds what was there at first.
        for message in book {
            let of = tenant(message.project);
            if let Some(place) = message.place {
                slots.release(place, of);
            }
            slots.settled(of.project);
        }
        let alone = std::iter::from_fn(|| slots.take(Lane::Direct, tenant(9))).count();
        prop_assert_eq!(alone, direct + (total - direct).max(1));
    }
}
