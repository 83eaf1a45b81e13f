//! Outcomes are written only for chunks that their worker still holds.

use std::sync::Arc;
use std::time::Duration;

use database::jumps::DueClock;
use domain::message::DeliveryState::{Delivered, Failed, Queued, Sent};
use jiff::{SignedDuration, Timestamp};
use store_sending::messages::insert::NewMessage;
use store_sending::messages::receipts::{self, Receipt};
use store_sending::messages::settle::Settled;
use store_sending::send_chunks::begin::{TakeRequest, take};
use store_sending::send_chunks::{self, NewChunk};
use uuid::Uuid;
use worker_delivery::settle::{Member, Settler};

use crate::fixture::Fixture;

pub fn lease(fixture: &Fixture) -> Timestamp {
    fixture.clock.now() + Duration::from_mins(1)
}

pub fn settler(fixture: &Fixture) -> Settler {
    Settler::start(fixture.store.clone(), DueClock::new(fixture.clock.clone()), Arc::new(|_| ()))
}

/// Returns a member of a begun chunk, in the message's queue.
pub fn member(message: &NewMessage, chunk: Uuid, position: usize) -> Member {
    Member { queue: message.queue(), campaign: None, chunk, position }
}

#[tokio::test]
async fn receipt_that_precedes_the_settling_is_kept() {
    let fixture = Fixture::new().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let messages = [fixture.message(ann), fixture.message(ann)];
    let chunk = fixture.insert_begun(&messages, lease(&fixture)).await;
    let mut db = fixture.store.connection().await.unwrap();
    let now = fixture.clock.now();

    // Receipts arrive before the worker's own outcomes: one accepted by the provider, one unknown.
    let recorded =
        messages.iter().map(|m| Receipt { message: m.id, state: Delivered, at: now, reason: None, url: None });
    let tx = db.transaction().await.unwrap();
    receipts::apply(&tx, fixture.project, &recorded.collect::<Vec<_>>(), now).await.unwrap();
    tx.commit().await.unwrap();
    let end = |id, status, due_at| Settled {
        due_at,
        subject: Some("Hi".into()),
        provider: Some("smtp"),
        provider_message_id: Some("p1".into()),
        ..Settled::new(fixture.project, id, 1, status)
    };
    let settler = settler(&fixture);
    // The second settling has no effect.
    for _ in 0..2 {
        settler.settle(member(&messages[0], chunk, 0), end(messages[0].id, Sent, None)).await;
        settler.settle(member(&messages[1], chunk, 1), end(messages[1].id, Queued, Some(now))).await;
    }
    fixture.assert_queue_is_whole().await;
    let sql = "SELECT status, subject, provider_message_id, sent_at IS NOT NULL, attempt FROM message WHERE id = $1";
    for (message, sent) in messages.iter().zip([true, false]) {
        let row = db.query_one(sql, &[&message.id]).await.unwrap();
        let (status, subject, provider): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        assert_eq!((status.as_str(), subject.as_str(), provider.as_str()), ("delivered", "Hi", "p1"));
        assert_eq!((row.get::<_, bool>(3), row.get::<_, i32>(4)), (sent, 1));
    }
    // Sent messages are counted even if the receipt came first; a call with an unknown outcome is not counted as sent.
    let counted = "SELECT status, sum(count)::bigint FROM message_status_count GROUP BY status ORDER BY status";
    let counted: Vec<(String, i64)> =
        db.query(counted, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(counted, [("delivered".to_owned(), 2), ("sent".to_owned(), 1)]);
}

#[tokio::test]
async fn an_outcome_whose_chunk_was_taken_over_is_dropped() {
    let fixture = Fixture::new().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let message = fixture.message(ann);
    let ended = fixture.clock.now() - SignedDuration::from_secs(1);
    let first = fixture.insert_begun(std::slice::from_ref(&message), ended).await;
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let want = TakeRequest { queue: message.queue(), max: 10, from: None, take_over: Some(&[]) };
    let taken = take(&tx, want, fixture.clock.now()).await.unwrap();
    assert_eq!((taken.in_doubt, taken.messages), (vec![message.id], vec![]));
    let chunk = NewChunk::begun(message.queue(), vec![message.id], SignedDuration::from_mins(1));
    let second = send_chunks::insert(&tx, &[chunk], fixture.clock.now()).await.unwrap()[0];
    tx.commit().await.unwrap();

    let settler = settler(&fixture);
    let settle = async |chunk, attempt, status| {
        let end = Settled::new(fixture.project, message.id, attempt, status);
        settler.settle(member(&message, chunk, 0), end).await;
        fixture.row(message.id).await.unwrap()
    };
    let row = settle(first, 1, Failed).await;
    assert_eq!((row.status.as_str(), row.is_begun), ("queued", true));
    let row = settle(second, 2, Sent).await;
    assert_eq!((row.status.as_str(), row.is_begun), ("sent", false));
    assert_eq!(settle(first, 1, Failed).await.status, "sent");
}

/// Covers the state after a commit whose response was lost.
#[tokio::test]
async fn outcome_is_written_once() {
    let fixture = Fixture::new().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let messages = [fixture.message(ann), fixture.message(ann)];
    let chunk = fixture.insert_begun(&messages, lease(&fixture)).await;
    let settler = settler(&fixture);
    let due_at = Some(fixture.clock.now() + Duration::from_mins(10));
    for _ in 0..3 {
        let end = Settled { due_at, failures: 1, ..Settled::new(fixture.project, messages[0].id, 1, Queued) };
        settler.settle(member(&messages[0], chunk, 0), end).await;
        let row = fixture.row(messages[0].id).await.unwrap();
        assert_eq!((row.status.as_str(), row.attempt, row.failures), ("queued", 1, 1));
        fixture.assert_queue_is_whole().await;
    }
}

#[tokio::test]
async fn an_outcome_leaves_the_other_messages_of_its_chunk_begun() {
    let fixture = Fixture::new().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let messages = [fixture.message(ann), fixture.message(ann), fixture.message(ann)];
    let chunk = fixture.insert_begun(&messages, lease(&fixture)).await;
    let settler = settler(&fixture);
    for (settled, n) in [1, 0, 2].into_iter().enumerate() {
        let end = Settled::new(fixture.project, messages[n].id, 1, Sent);
        settler.settle(member(&messages[n], chunk, n), end).await;
        let row = fixture.row(messages[n].id).await.unwrap();
        assert_eq!((row.status.as_str(), row.is_begun), ("sent", false));
        assert_eq!(fixture.begun(fixture.project).await, 2 - settled as i64);
        fixture.assert_queue_is_whole().await;
    }
    let chunks = "SELECT count(*) FROM send_chunk";
    let left: i64 = fixture.store.connection().await.unwrap().query_one(chunks, &[]).await.unwrap().get(0);
    assert_eq!(left, 0);
}
