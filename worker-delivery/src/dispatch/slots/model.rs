//! Random projects take and release slots, checked against a list of the messages that hold them.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use uuid::Uuid;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Act {
    Take(Lane),
    /// Ends the call of a message that holds a slot.
    End(prop::sample::Index),
    /// Settles a message, whether its call has ended or not.
    Settle(prop::sample::Index),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => prop::sample::select(Lane::ALL.to_vec()).prop_map(Act::Take),
        2 => any::<prop::sample::Index>().prop_map(Act::End),
        1 => any::<prop::sample::Index>().prop_map(Act::Settle),
    ]
}

/// A message of a project, with its slot until its call has ended.
struct Message {
    project: u128,
    slot: Option<Pool>,
}

/// An owner with one project.
fn tenant(n: u128) -> Tenant {
    let project = ProjectId(Uuid::from_u128(n));
    Tenant { owner: project.into(), project, channel: Channel::Push }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn slots_are_conserved_and_an_owner_without_any_gets_one(
        total in 2..40_usize,
        acts in prop::collection::vec((0..5_u128, act()), 1..300),
    ) {
        let mut slots = Slots::new(total);
        let mut messages: Vec<Message> = Vec::new();
        let direct = (total / 4).max(1);
        for (project, act) in acts {
            match act {
                Act::Take(lane) => {
                    // The limit of one owner, the free slots, and the slots that the project holds.
                    let usage = |pool: Pool| {
                        let limit = if pool == Pool::Direct { direct } else { (total - direct).max(1) };
                        let size = limit + limit.div_ceil(8);
                        let held = |by: Option<u128>| {
                            let is_held = |m: &&Message| m.slot == Some(pool) && by.is_none_or(|p| p == m.project);
                            messages.iter().filter(is_held).count()
                        };
                        (limit, size - held(None), held(Some(project)))
                    };
                    let pools = if lane == Lane::Direct { vec![Pool::Direct, Pool::Common] } else { vec![Pool::Common] };
                    let taken = slots.take(lane, tenant(project));
                    if let Some(pool) = taken {
                        let (limit, free, own) = usage(pool);
                        prop_assert!(pools.contains(&pool) && free > 0, "a slot from a full or foreign pool");
                        prop_assert!(own < limit && own < 8 * free, "{} held of {}, {} free", own, limit, free);
                        messages.push(Message { project, slot: Some(pool) });
                    } else {
                        for pool in pools {
                            let (limit, free, own) = usage(pool);
                            prop_assert!(free == 0 || own > 0, "no slot for an owner without any, {} free", free);
                            prop_assert!(own >= limit.min(8 * free), "{} held of {}, {} free", own, limit, free);
                        }
                    }
                }
                Act::End(which) => {
                    let held: Vec<_> = messages.iter_mut().filter(|m| m.slot.is_some()).collect();
                    if let Some(message) = (!held.is_empty()).then(|| which.index(held.len())).and_then(|i| held.into_iter().nth(i)) {
                        let slot = message.slot.take().unwrap();
                        slots.release(slot, tenant(message.project));
                    }
                }
                Act::Settle(which) => {
                    if !messages.is_empty() {
                        let message = messages.remove(which.index(messages.len()));
                        let tenant = tenant(message.project);
                        if let Some(slot) = message.slot {
                            slots.release(slot, tenant);
                        }
                        prop_assert!(!slots.settled(tenant.project), "the limit of unsettled messages was never reached");
                    }
                }
            }
        }
        // Once all slots are released, an owner gets its full limit.
        for message in messages {
            let tenant = tenant(message.project);
            if let Some(slot) = message.slot {
                slots.release(slot, tenant);
            }
            slots.settled(tenant.project);
        }
        let all = std::iter::from_fn(|| slots.take(Lane::Direct, tenant(9))).count();
        prop_assert_eq!(all, direct + (total - direct).max(1));
    }
}
