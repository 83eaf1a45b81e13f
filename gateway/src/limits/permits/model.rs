//! Requests of several owners that arrive, give up and finish at random: the owner who is served next.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;
use uuid::Uuid;

use super::*;

#[derive(Clone, Debug)]
enum Act {
    Arrive(u128),
    Cancel(Index),
    Finish(Index),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..4_u128).prop_map(Act::Arrive),
        1 => any::<Index>().prop_map(Act::Cancel),
        3 => any::<Index>().prop_map(Act::Finish),
    ]
}

struct Request<'a> {
    owner: u128,
    permit: Pin<Box<dyn Future<Output = Option<Permit>> + 'a>>,
}

/// Moves the permits of served requests to `held`; returns their owners in order of arrival.
fn served(waiting: &mut Vec<Request<'_>>, held: &mut Vec<(u128, Permit)>) -> Vec<u128> {
    let mut owners = Vec::new();
    let mut at = 0;
    while at < waiting.len() {
        match waiting[at].permit.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => {
                let owner = waiting.remove(at).owner;
                owners.push(owner);
                held.extend(permit.map(|permit| (owner, permit)));
            }
            Poll::Pending => at += 1,
        }
    }
    owners
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn free_permit_goes_to_the_owner_with_the_fewest(
        capacity in 1..4_usize,
        per_owner in 1..4_usize,
        acts in prop::collection::vec(act(), 1..80),
    ) {
        // The runtime is entered only for its timers, which never fire.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let permits = Permits::new(capacity, per_owner);
        let mut waiting: Vec<Request<'_>> = Vec::new();
        let mut held: Vec<(u128, Permit)> = Vec::new();
        for act in acts {
            match act {
                Act::Arrive(owner) => {
                    let permit = permits.acquire(OwnerId(Uuid::from_u128(owner)), Duration::from_hours(1));
                    waiting.push(Request { owner, permit: Box::pin(permit) });
                }
                Act::Cancel(which) if !waiting.is_empty() => drop(waiting.remove(which.index(waiting.len()))),
                Act::Finish(which) if !held.is_empty() => drop(held.swap_remove(which.index(held.len()))),
                Act::Cancel(_) | Act::Finish(_) => {}
            }
            let count = |held: &[(u128, Permit)], owner| held.iter().filter(|(of, _)| *of == owner).count();
            let before: Vec<usize> = (0..4).map(|owner| count(&held, owner)).collect();
            let (waiting_owners, owners) = (waiting.iter().map(|request| request.owner).collect::<Vec<_>>(), served(&mut waiting, &mut held));
            // No permit is free while a request may take it.
            let may = |owner: u128| count(&held, owner) < per_owner;
            prop_assert!(held.len() == capacity || !waiting.iter().any(|request| may(request.owner)));
            prop_assert!(held.len() <= capacity && (0..4).all(|owner| count(&held, owner) <= per_owner));
            // A single freed permit goes to one of the owners that hold the fewest.
            if let [owner] = owners[..] {
                let passed = waiting_owners.iter().filter(|other| before[**other as usize] < before[owner as usize]);
                prop_assert_eq!(passed.count(), 0, "{} was served, of {:?} with {:?}", owner, waiting_owners, before);
            }
        }
        drop(waiting);
        held.clear();
        let state = permits.0.locked();
        prop_assert!(state.free == capacity && state.held.is_empty());
    }
}
