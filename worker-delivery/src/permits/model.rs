//! Random projects that wait for permits, give them back, or wait no longer: nobody waits for what is there.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;
use uuid::Uuid;

use super::*;

#[derive(Clone, Debug)]
enum Act {
    Acquire {
        lane: Lane,
        project: u128,
        most: usize,
    },
    /// One of those who wait does so no longer.
    Leave(Index),
    Called(Index),
    GiveBack(Index),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (prop::sample::select(Lane::ALL.to_vec()), 0..4_u128, 1..6_usize)
            .prop_map(|(lane, project, most)| Act::Acquire { lane, project, most }),
        1 => any::<Index>().prop_map(Act::Leave),
        1 => any::<Index>().prop_map(Act::Called),
        3 => any::<Index>().prop_map(Act::GiveBack),
    ]
}

type Given = Pin<Box<dyn Future<Output = Vec<Permit>>>>;

/// Who waits, the first to come first.
struct Wait {
    lane: Lane,
    of: Tenant,
    given: Given,
}

/// Whoever has been given permits takes them. Returns whether somebody of the same project and lane was left out who came before.
fn take_given(waits: &mut Vec<Wait>, held: &mut Vec<Permit>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    let (mut still, mut is_unfair): (Vec<Wait>, bool) = (Vec::new(), false);
    for mut wait in waits.drain(..) {
        if let Poll::Ready(permits) = wait.given.as_mut().poll(&mut context) {
            held.extend(permits);
            is_unfair |= still.iter().any(|before| (before.lane, before.of) == (wait.lane, wait.of));
        } else {
            still.push(wait);
        }
    }
    *waits = still;
    is_unfair
}

/// An owner with one project.
fn tenant(n: u128) -> Tenant {
    let project = ProjectId(Uuid::from_u128(n));
    Tenant { owner: project.into(), project }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn nobody_waits_for_what_is_there_and_everybody_is_served(
        total in 2..20_usize,
        acts in prop::collection::vec(act(), 1..120),
    ) {
        let permits = Permits::new(total);
        let (mut waits, mut held): (Vec<Wait>, Vec<Permit>) = (Vec::new(), Vec::new());
        for act in acts {
            match act {
                Act::Acquire { lane, project, most } => {
                    let of = tenant(project);
                    let permits = permits.clone();
                    let given = Box::pin(async move { permits.first(lane, of, most).await });
                    waits.push(Wait { lane, of, given });
                }
                // Perhaps they were just given some, and have not seen it.
                Act::Leave(which) if !waits.is_empty() => drop(waits.remove(which.index(waits.len()))),
                Act::Called(which) if !held.is_empty() => {
                    let which = which.index(held.len());
                    held[which].called();
                    continue;
                }
                Act::GiveBack(which) if !held.is_empty() => {
                    drop(held.remove(which.index(held.len())));
                    continue;
                }
                _ => {}
            }
            prop_assert!(!take_given(&mut waits, &mut held), "who came later was served before");
            for wait in &waits {
                let room = permits.take(&mut permits.state(), wait.lane, wait.of, 1);
                prop_assert!(room.is_empty(), "{:?} {} waits, and there is room", wait.lane, wait.of.project);
            }
        }
        while !waits.is_empty() {
            prop_assert!(!take_given(&mut waits, &mut held), "who came later was served before");
            prop_assert!(!held.is_empty() || waits.is_empty(), "{} wait for nobody", waits.len());
            held.clear();
        }
        held.clear();
        let all = permits.take(&mut permits.state(), Lane::Direct, tenant(9), usize::MAX);
        let direct = (total / 4).max(1);
        prop_assert_eq!(all.len(), direct + (total - direct).max(1));
        // Not while the state is locked, as each gives its own back.
        drop(all);
    }
}
