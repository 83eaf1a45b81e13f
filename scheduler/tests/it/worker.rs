//! A delivery worker's handling of campaign queues, with the same store functions.

use std::collections::BTreeMap;

use database::Transaction;
use domain::message::{Channel, DeliveryState, Lane, Queue};
use jiff::SignedDuration;
use store_sending::campaigns;
use store_sending::messages::claim::{ClaimedMessage, load};
use store_sending::messages::recipients::{self, BeginResult, LockMode};
use store_sending::messages::settle::{self, Settled};
use store_sending::send_chunks::begin::{TakeRequest, TakenMembers, take};
use store_sending::send_chunks::{self, NewChunk};
use testkit::eventually;
use uuid::Uuid;

use crate::fixture::{Fixture, SOON};

/// Members of chunks that workers may begin.
pub const DUE: &str = "SELECT coalesce(sum(size), 0)::bigint FROM send_chunk WHERE due_at <= now() AND NOT is_begun";
/// Members of chunks that the campaign has not released.
pub const PARKED: &str = "SELECT coalesce(sum(size), 0)::bigint FROM send_chunk WHERE due_at IS NULL";

/// The outcome of a call: state, reason, failures to be added.
pub type Outcome = (DeliveryState, Option<&'static str>, i32);

pub const SENT: Outcome = (DeliveryState::Sent, None, 0);

/// Messages that a worker is sending.
pub struct Sending {
    pub chunk: Uuid,
    pub messages: Vec<ClaimedMessage>,
}

fn queue(fixture: &Fixture) -> Queue {
    Queue { project: fixture.project, channel: Channel::Email, lane: Lane::Campaign }
}

/// Begins up to `most` due messages of one campaign.
pub async fn begin(fixture: &Fixture, most: usize, lease: SignedDuration) -> Sending {
    let (mut db, now) = (fixture.store.connection().await.unwrap(), fixture.clock.now());
    let tx = db.transaction().await.unwrap();
    let want = TakeRequest { queue: queue(fixture), max: most, from: None, take_over: Some(&[]) };
    let taken = take(&tx, want, now).await.unwrap();
    let messages = messages(fixture, &tx, &taken).await;
    let sending = messages.first().and_then(|message| message.sending);
    let chunk = NewChunk {
        campaign: sending.map(|of| (of.campaign, of.occurrence)),
        ..NewChunk::begun(queue(fixture), messages.iter().map(|message| message.id).collect(), lease)
    };
    let chunk = send_chunks::insert(&tx, &[chunk], now).await.unwrap()[0];
    tx.commit().await.unwrap();
    Sending { chunk, messages }
}

async fn messages(fixture: &Fixture, tx: &Transaction<'_>, taken: &TakenMembers) -> Vec<ClaimedMessage> {
    let (project, now) = (fixture.project, fixture.clock.now());
    settle::count_ambiguous(tx, project, &taken.in_doubt, now).await.unwrap();
    let recorded = taken.messages.iter().map(|id| (*id, false));
    let recorded: BTreeMap<Uuid, bool> = recorded.chain(taken.in_doubt.iter().map(|id| (*id, true))).collect();
    let mut messages = load(tx, project, &recorded).await.unwrap();
    if let Some(sending) = taken.sending.as_ref().filter(|_| !taken.audience.is_empty()) {
        recipients::lock(tx, sending.campaign, LockMode::Exclusive).await.unwrap();
        let of = (sending, taken.audience.as_slice());
        match recipients::insert(tx, queue(fixture), of, Some, LockMode::Exclusive, now).await.unwrap() {
            BeginResult::Messages(new) => messages.extend(new),
            BeginResult::NeedsExclusive => panic!("the lock is exclusive"),
        }
    }
    messages.sort_by_key(|message| message.id);
    messages
}

/// Begins exactly `count` messages, as soon as enough are due.
pub async fn begin_exactly(fixture: &Fixture, count: usize, lease: SignedDuration) -> Sending {
    eventually(SOON, async || match fixture.count(DUE).await {
        due if due >= count as i64 => Ok(()),
        due => Err(format!("{due} due")),
    })
    .await;
    let sending = begin(fixture, count, lease).await;
    assert_eq!(sending.messages.len(), count);
    sending
}

/// Settles the begun messages; those still queued are due again in an hour. Returns false if the worker's lease was
/// lost.
pub async fn settle(fixture: &Fixture, sending: &Sending, outcome: impl Fn(usize) -> Outcome) -> bool {
    let (project, now) = (fixture.project, fixture.clock.now());
    let retry_at = now + SignedDuration::from_hours(1);
    let settled: Vec<Settled> = sending
        .messages
        .iter()
        .enumerate()
        .map(|(n, message)| {
            let (status, reason, failures) = outcome(n);
            Settled {
                reason: reason.map(str::to_owned),
                failures,
                due_at: (status == DeliveryState::Queued).then_some(retry_at),
                ..Settled::new(project, message.id, message.attempt, status)
            }
        })
        .collect();
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let mut locked = send_chunks::settle::lock(&tx, project, &[sending.chunk]).await.unwrap();
    let Some(done) = locked.get_mut(&sending.chunk) else { return false };
    (0..settled.len()).for_each(|member| done.set(member));
    let queued = settle::settle(&tx, project, &settled.iter().collect::<Vec<_>>(), now).await.unwrap();
    let of = sending.messages.first().and_then(|message| message.sending).unwrap();
    let retries =
        NewChunk { campaign: Some((of.campaign, of.occurrence)), ..NewChunk::due(queue(fixture), queued, retry_at) };
    send_chunks::insert(&tx, &[retries], now).await.unwrap();
    send_chunks::settle::write(&tx, project, &locked).await.unwrap();
    tx.commit().await.unwrap();
    true
}

/// Begins and settles exactly `count` messages.
pub async fn deliver(fixture: &Fixture, count: usize, outcome: impl Fn(usize) -> Outcome) {
    let sending = begin_exactly(fixture, count, SignedDuration::from_mins(1)).await;
    assert!(settle(fixture, &sending, outcome).await);
}

/// Sends everything that is due.
pub async fn deliver_due(fixture: &Fixture) {
    loop {
        let sending = begin(fixture, 5_000, SignedDuration::from_mins(1)).await;
        if sending.messages.is_empty() {
            return;
        }
        assert!(settle(fixture, &sending, |_| SENT).await);
    }
}

/// Returns a campaign's report: recipients by variant and state.
pub async fn report(fixture: &Fixture, campaign: Uuid) -> Vec<(Option<String>, String, i64)> {
    let db = fixture.store.connection().await.unwrap();
    let counts = campaigns::counts::report(&db, fixture.project, campaign).await.unwrap();
    counts.into_iter().map(|of| (of.variant, of.status, of.count)).collect()
}

/// Returns the number of a campaign's recipients in a state.
pub async fn reported(fixture: &Fixture, campaign: Uuid, state: &str) -> i64 {
    report(fixture, campaign).await.into_iter().filter(|row| row.1 == state).map(|row| row.2).sum()
}
