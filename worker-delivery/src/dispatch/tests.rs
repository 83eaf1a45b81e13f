use kernel::ids::ProjectId;
use uuid::Uuid;

use super::*;

fn dispatcher(total: usize) -> Dispatcher {
    Dispatcher::new(total, &Channel::ALL)
}

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
    let dispatcher = dispatcher(8);
    let one = queue(1, Lane::Campaign);
    dispatcher.ready(one, owner(1));
    let grant = begins(&dispatcher).unwrap();
    assert_eq!((grant.queue, grant.permits.len()), (one, 6));
    dispatcher.ready(one, owner(1));
    assert!(begins(&dispatcher).is_none(), "its batch is being begun");
    drop(grant);
    dispatcher.finish_attempt(one, owner(1), 6, NextState::Idle, None);
    assert!(begins(&dispatcher).is_some(), "it was marked as ready meanwhile");
    dispatcher.finish_attempt(one, owner(1), 0, NextState::Idle, None);
    assert!(!dispatcher.is_tracked(one) && begins(&dispatcher).is_none());
}

#[tokio::test]
async fn owner_gets_slots_while_another_holds_all_of_its_own() {
    let dispatcher = dispatcher(8);
    dispatcher.ready(queue(1, Lane::Direct), owner(1));
    let first = begins(&dispatcher).unwrap();
    assert_eq!(first.permits.len(), 8);
    dispatcher.finish_attempt(queue(1, Lane::Direct), owner(1), 8, NextState::Ready, None);
    dispatcher.ready(queue(2, Lane::Direct), owner(2));
    let second = begins(&dispatcher).unwrap();
    assert_eq!((second.queue, second.permits.len()), (queue(2, Lane::Direct), 2));
    assert!(begins(&dispatcher).is_none(), "the first has all of its slots");
    drop(first);
    assert!(begins(&dispatcher).is_some());
}

#[tokio::test(start_paused = true)]
async fn busy_owners_share_the_slots() {
    let dispatcher = dispatcher(32);
    let mut begun = HashMap::<Queue, usize>::new();
    let mut busy = BTreeMap::<(usize, Queue), Grant>::new();
    (1..=3).for_each(|n| dispatcher.ready(queue(n, Lane::Campaign), owner(n)));
    for tick in 0..1_000 {
        tokio::time::advance(MAX_BATCH_WAIT).await;
        while let Some(entry) = busy.first_entry().filter(|entry| entry.key().0 <= tick) {
            let Grant { queue, owner, permits, .. } = entry.remove();
            dispatcher.finish_attempt(queue, owner, permits.len(), NextState::Ready, None);
            drop(permits);
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
    let dispatcher = dispatcher(8);
    let one = queue(1, Lane::Direct);
    dispatcher.ready(one, owner(1));
    drop(begins(&dispatcher).unwrap());
    dispatcher.finish_attempt(one, owner(1), 0, NextState::BackOffUntil(Instant::now() + MAX_BATCH_WAIT), None);
    dispatcher.ready(one, owner(1));
    assert!(begins(&dispatcher).is_none() && dispatcher.is_tracked(one));
    tokio::time::advance(MAX_BATCH_WAIT).await;
    assert!(begins(&dispatcher).is_some());
}

#[tokio::test(start_paused = true)]
async fn small_batch_waits_briefly_for_more_slots() {
    let dispatcher = dispatcher(64);
    let one = queue(1, Lane::Campaign);
    dispatcher.ready(one, owner(1));
    let mut grant = begins(&dispatcher).unwrap();
    dispatcher.finish_attempt(one, owner(1), grant.permits.len(), NextState::Ready, None);
    grant.permits.pop();
    assert!(begins(&dispatcher).is_none());
    tokio::time::advance(MAX_BATCH_WAIT).await;
    assert_eq!(begins(&dispatcher).unwrap().permits.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn queue_is_read_from_its_lower_bound_between_full_scans() {
    let dispatcher = dispatcher(8);
    let one = queue(1, Lane::Direct);
    let head = Timestamp::from_second(1_000).unwrap();
    let from = || {
        dispatcher.ready(one, owner(1));
        let from = begins(&dispatcher).unwrap().from;
        dispatcher.finish_attempt(one, owner(1), 0, NextState::Idle, Some(head));
        from
    };
    assert_eq!(from(), None);
    assert_eq!(from(), Some(head - CLOCK_SKEW));
    tokio::time::advance(FULL_SCAN_INTERVAL).await;
    assert_eq!(from(), None);
    assert_eq!(from(), Some(head - CLOCK_SKEW));
}

#[tokio::test(start_paused = true)]
async fn queue_is_charged_for_the_messages_that_are_begun() {
    let dispatcher = dispatcher(64);
    let [limited, full, other] = [1, 2, 3].map(|n| queue(n, Lane::Campaign));
    let queues = [(limited, owner(1)), (full, owner(1)), (other, owner(2))];
    queues.iter().for_each(|(queue, owner)| dispatcher.ready(*queue, *owner));
    let mut begun = HashMap::<OwnerId, usize>::new();
    for _ in 0..1_000 {
        let Grant { queue, owner, permits, .. } = begins(&dispatcher).unwrap();
        let count = if queue == limited { 1 } else { permits.len() };
        *begun.entry(owner).or_default() += count;
        dispatcher.finish_attempt(queue, owner, count, NextState::Ready, None);
    }
    let (one, two) = (begun[&owner(1)], begun[&owner(2)]);
    assert!(one.abs_diff(two) < 64, "{one} and {two}");
}

#[tokio::test]
async fn attempts_that_begin_nothing_are_charged_for_one_message() {
    let dispatcher = dispatcher(64);
    let [empty, full] = [1, 2].map(|n| queue(n, Lane::Campaign));
    [(empty, owner(1)), (full, owner(2))].iter().for_each(|(queue, owner)| dispatcher.ready(*queue, *owner));
    for (nth, served) in [empty, full, empty, empty].into_iter().enumerate() {
        let Grant { queue, owner, .. } = begins(&dispatcher).unwrap();
        assert_eq!(queue, served, "{nth}");
        dispatcher.finish_attempt(queue, owner, if queue == empty { 0 } else { 3 }, NextState::Ready, None);
    }
}

#[tokio::test]
async fn queues_of_one_owner_are_not_all_begun_before_those_of_another() {
    let dispatcher = dispatcher(512);
    for (n, of) in [(1, 1), (2, 1), (3, 1), (4, 2)] {
        dispatcher.ready(queue(n, Lane::Campaign), owner(of));
    }
    let grants: Vec<Grant> = std::iter::from_fn(|| begins(&dispatcher)).take(2).collect();
    assert_eq!(grants.iter().map(|grant| grant.owner).collect::<Vec<_>>(), [owner(1), owner(2)]);
}

#[tokio::test]
async fn queue_of_a_channel_that_is_not_served_is_never_ready() {
    let dispatcher = Dispatcher::new(8, &[Channel::Push]);
    let email = queue(1, Lane::Direct);
    dispatcher.ready(email, owner(1));
    assert!(!dispatcher.is_tracked(email) && begins(&dispatcher).is_none());
    dispatcher.ready(Queue { channel: Channel::Push, ..email }, owner(1));
    assert!(begins(&dispatcher).is_some());
}
