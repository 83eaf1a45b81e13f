use shared::ids::ProjectId;
use shared::send::Channel;
use uuid::Uuid;

use super::*;

fn queue(n: u128, lane: Lane) -> Queue {
    Queue { project: ProjectId(Uuid::from_u128(n)), channel: Channel::Email, lane }
}

fn owner(n: u128) -> OwnerId {
    OwnerId(Uuid::from_u128(n))
}

fn begins(dispatcher: &Dispatcher) -> Option<Grant> {
    match dispatcher.step(Instant::now()) {
        Step::Begin(grant) => Some(grant),
        Step::Wait(_) => None,
    }
}

#[tokio::test]
async fn ready_queue_gets_the_free_slots_and_begins_one_batch_at_a_time() {
    let dispatcher = Dispatcher::new(8);
    let one = queue(1, Lane::Campaign);
    dispatcher.ready(one, owner(1));
    let grant = begins(&dispatcher).unwrap();
    assert_eq!((grant.queue, grant.permits.len()), (one, 6));
    dispatcher.ready(one, owner(1));
    assert!(begins(&dispatcher).is_none(), "its batch is being begun");
    drop(grant);
    dispatcher.finish_attempt(one, owner(1), NextState::Idle, None);
    assert!(begins(&dispatcher).is_some(), "it was marked as ready meanwhile");
    dispatcher.finish_attempt(one, owner(1), NextState::Idle, None);
    assert!(!dispatcher.is_tracked(one) && begins(&dispatcher).is_none());
}

#[tokio::test]
async fn owner_gets_slots_while_another_holds_all_of_its_own() {
    let dispatcher = Dispatcher::new(8);
    dispatcher.ready(queue(1, Lane::Direct), owner(1));
    let first = begins(&dispatcher).unwrap();
    assert_eq!(first.permits.len(), 8);
    dispatcher.finish_attempt(queue(1, Lane::Direct), owner(1), NextState::Ready, None);
    dispatcher.ready(queue(2, Lane::Direct), owner(2));
    let second = begins(&dispatcher).unwrap();
    assert_eq!((second.queue, second.permits.len()), (queue(2, Lane::Direct), 2));
    assert!(begins(&dispatcher).is_none(), "the first has all of its slots");
    drop(first);
    assert!(begins(&dispatcher).is_some());
}

#[tokio::test(start_paused = true)]
async fn busy_owners_share_the_slots() {
    let dispatcher = Dispatcher::new(32);
    let mut begun = HashMap::<Queue, usize>::new();
    let mut busy = BTreeMap::<(usize, Queue), Grant>::new();
    (1..=3).for_each(|n| dispatcher.ready(queue(n, Lane::Campaign), owner(n)));
    for tick in 0..1_000 {
        tokio::time::advance(MAX_BATCH_WAIT).await;
        while let Some(entry) = busy.first_entry().filter(|entry| entry.key().0 <= tick) {
            let Grant { queue, owner, permits, .. } = entry.remove();
            drop(permits);
            dispatcher.finish_attempt(queue, owner, NextState::Ready, None);
        }
        while let Some(grant) = begins(&dispatcher) {
            let count = grant.permits.len();
            *begun.entry(grant.queue).or_insert(0) += count;
            busy.insert((tick + 3, grant.queue), grant);
        }
    }
    let all: usize = begun.values().sum();
    assert!(begun.values().all(|own| own * 4 > all), "{begun:?}");
}

#[tokio::test(start_paused = true)]
async fn queue_that_backs_off_is_ready_again_at_its_time() {
    let dispatcher = Dispatcher::new(8);
    let one = queue(1, Lane::Direct);
    dispatcher.ready(one, owner(1));
    drop(begins(&dispatcher).unwrap());
    dispatcher.finish_attempt(one, owner(1), NextState::BackOffUntil(Instant::now() + MAX_BATCH_WAIT), None);
    dispatcher.ready(one, owner(1));
    assert!(begins(&dispatcher).is_none() && dispatcher.is_tracked(one));
    tokio::time::advance(MAX_BATCH_WAIT).await;
    assert!(begins(&dispatcher).is_some());
}

#[tokio::test(start_paused = true)]
async fn small_batch_waits_briefly_for_more_slots() {
    let dispatcher = Dispatcher::new(64);
    let one = queue(1, Lane::Campaign);
    dispatcher.ready(one, owner(1));
    let mut grant = begins(&dispatcher).unwrap();
    dispatcher.finish_attempt(one, owner(1), NextState::Ready, None);
    grant.permits.pop();
    assert!(begins(&dispatcher).is_none());
    tokio::time::advance(MAX_BATCH_WAIT).await;
    assert_eq!(begins(&dispatcher).unwrap().permits.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn queue_is_read_from_its_lower_bound_between_full_scans() {
    let dispatcher = Dispatcher::new(8);
    let one = queue(1, Lane::Direct);
    let head = Timestamp::from_second(1_000).unwrap();
    let from = || {
        dispatcher.ready(one, owner(1));
        let from = begins(&dispatcher).unwrap().from;
        dispatcher.finish_attempt(one, owner(1), NextState::Idle, Some(head));
        from
    };
    assert_eq!(from(), None);
    assert_eq!(from(), Some(head - CLOCK_SKEW));
    tokio::time::advance(FULL_SCAN_INTERVAL).await;
    assert_eq!(from(), None);
    assert_eq!(from(), Some(head - CLOCK_SKEW));
}
