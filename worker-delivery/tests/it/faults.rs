//! Providers that refuse, defer, or do not answer, and attempts that are never settled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::message::Lane;
use serde_json::json;
use store_sending::messages::insert::NewMessage;
use worker_delivery::provider::stub::Stub;
use worker_delivery::provider::{Email, Outcome};

use crate::place::{Place, SOON};

#[tokio::test]
async fn a_temporary_refusal_is_retried() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann+defer451@example.com"), None).await;
    let message = place.message(ann);
    place.queue(std::slice::from_ref(&message)).await;
    let row = place.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.failures, row.ambiguous), ("queued", 1, 0));
    assert!(row.reason.as_deref().unwrap().starts_with("retrying: 451"), "{row:?}");
    assert!((5..=15).contains(&place.due_in(&row).unwrap()), "{row:?}");
    let sql = "UPDATE users SET email = 'ann@example.com' WHERE project_id = $1";
    place.store.connection().await.unwrap().execute(sql, &[&place.project]).await.unwrap();
    place.bring_forward(message.id).await;
    mailbox.wait_for(1, SOON).await;
    let row = place.settled(message.id, 2).await;
    assert_eq!((row.status.as_str(), row.reason, row.failures), ("sent", None, 1));
    place.stop().await;
}

#[tokio::test]
async fn a_refusal_for_good_fails_with_the_providers_words() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann+reject550@example.com"), None).await;
    let message = place.message(ann);
    place.queue(std::slice::from_ref(&message)).await;
    let row = place.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.due_at), ("failed", None));
    assert!(row.reason.as_deref().unwrap().starts_with("rejected: 550"), "{row:?}");
    place.drained().await;
    assert!(mailbox.mails().is_empty());
    place.stop().await;
}

#[tokio::test]
async fn a_provider_that_took_the_mail_and_never_answered_is_asked_once_more() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann+unanswered@example.com"), None).await;
    let message = place.message(ann);
    place.queue(std::slice::from_ref(&message)).await;
    let row = place.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.failures, row.ambiguous), ("queued", 0, 1));
    assert!(row.reason.as_deref().unwrap().starts_with("outcome_unknown"), "{row:?}");
    place.bring_forward(message.id).await;
    let row = place.settled(message.id, 2).await;
    assert_eq!((row.status.as_str(), row.ambiguous, row.due_at), ("failed", 2, None));
    let mails = mailbox.mails();
    assert_eq!(mails.len(), 2);
    assert_eq!(mails[0].header("Message-ID"), mails[1].header("Message-ID"));
    place.stop().await;
}

#[tokio::test]
async fn a_campaigns_mail_is_not_repeated_when_no_answer_came() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann+unanswered@example.com"), None).await;
    let message = NewMessage { lane: Lane::Campaign, ..place.message(ann) };
    place.queue(std::slice::from_ref(&message)).await;
    let row = place.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.ambiguous, row.due_at), ("failed", 1, None));
    assert_eq!(mailbox.mails().len(), 1);
    place.stop().await;
}

#[tokio::test]
async fn a_lease_that_ended_counts_as_ambiguous() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let (once, twice) = (place.message(ann), place.message(ann));
    let campaigns = NewMessage { lane: Lane::Campaign, ..place.message(ann) };
    // The state that a worker leaves when it is killed during a call: for `twice`, the second time.
    let lease = place.clock.now() + Duration::from_hours(1);
    place.insert_begun(&[once.clone(), twice.clone()], lease).await;
    place.insert_begun(std::slice::from_ref(&campaigns), lease).await;
    let sql = "UPDATE message SET attempt = 1, ambiguous = 1 WHERE id = $1";
    place.store.connection().await.unwrap().execute(sql, &[&twice.id]).await.unwrap();
    place.bring_forward(twice.id).await;
    place.bring_forward(campaigns.id).await;
    let row = place.settled(once.id, 2).await;
    assert_eq!((row.status.as_str(), row.ambiguous), ("sent", 1));
    let row = place.settled(twice.id, 3).await;
    assert_eq!((row.status.as_str(), row.ambiguous), ("failed", 2));
    let row = place.settled(campaigns.id, 2).await;
    assert_eq!((row.status.as_str(), row.ambiguous), ("failed", 1));
    assert!(row.reason.as_deref().unwrap().starts_with("outcome_unknown"), "{row:?}");
    assert_eq!(mailbox.wait_for(1, SOON).await.len(), 1);
    place.stop().await;
}

#[tokio::test]
async fn a_panic_over_one_message_costs_no_other() {
    let mut place = Place::new().await;
    let (ann, eve) = (
        place.user("ann", Some("ann@example.com"), None).await,
        place.user("eve", Some("eve@example.com"), None).await,
    );
    let stub = Stub::new(|email: &Email| {
        assert_ne!(email.to.email.to_string(), "eve@example.com", "panicking on purpose");
        Outcome::Accepted("1".to_owned())
    });
    place.run_with_stub(stub).await;
    let messages = [place.message(ann), place.message(eve), place.message(ann)];
    place.queue(&messages).await;
    let row = place.settled(messages[1].id, 1).await;
    assert!(row.status == "failed" && row.reason.as_deref().unwrap().starts_with("internal_error"), "{row:?}");
    for message in [&messages[0], &messages[2]] {
        assert_eq!(place.settled(message.id, 1).await.status, "sent");
    }
    place.drained().await;
    place.stop().await;
}

#[tokio::test]
async fn after_eight_failures_a_message_is_given_up() {
    let mut place = Place::new().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    place
        .run_with_stub(Stub::new(move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
            Outcome::Throttled { after: None, why: "busy".to_owned() }
        }))
        .await;
    let mut message = place.message(ann);
    message.content = json!({ "subject": "a", "body": "b" });
    place.queue(std::slice::from_ref(&message)).await;
    for attempt in 1..8 {
        assert_eq!(place.settled(message.id, attempt).await.status, "queued");
        place.bring_forward(message.id).await;
    }
    let row = place.settled(message.id, 8).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref(), row.failures), ("failed", Some("gave_up: busy"), 8));
    assert_eq!(calls.load(Ordering::SeqCst), 8);
    place.stop().await;
}

#[tokio::test]
async fn a_begun_message_is_left_alone_until_its_lease_ends() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let begun = place.message(ann);
    place.insert_begun(std::slice::from_ref(&begun), place.clock.now() + Duration::from_hours(1)).await;
    for _ in 0..2 {
        // Uses the same queue, so that a worker polls it.
        let other = place.message(ann);
        place.queue(std::slice::from_ref(&other)).await;
        assert_eq!(place.settled(other.id, 1).await.status, "sent");
    }
    let row = place.row(begun.id).await.unwrap();
    assert!(row.is_begun && row.attempt == 0 && row.ambiguous == 0, "{row:?}");
    assert_eq!(mailbox.mails().len(), 2);
    place.bring_forward(begun.id).await;
    let row = place.settled(begun.id, 2).await;
    assert_eq!((row.status.as_str(), row.ambiguous), ("sent", 1));
    place.stop().await;
}

#[tokio::test]
async fn retries_of_a_batch_share_few_chunks() {
    const MANY: usize = 384;
    let mut place = Place::new().await;
    place.addresses = vec![("DELIVERY_CONCURRENCY", "256".to_owned())];
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    place.run_with_stub(Stub::new(|_| Outcome::Throttled { after: None, why: "busy".to_owned() })).await;
    let messages: Vec<_> = (0..MANY).map(|_| place.message(ann)).collect();
    place.queue(&messages).await;
    for message in &messages {
        assert_eq!(place.settled(message.id, 1).await.status, "queued");
    }
    place.assert_queue_is_whole().await;
    let sql = "SELECT count(*) FROM send_chunk WHERE project_id = $1";
    let chunks: i64 = place.store.connection().await.unwrap().query_one(sql, &[&place.project]).await.unwrap().get(0);
    assert!(chunks * 4 <= MANY as i64, "{chunks} chunks");
    place.stop().await;
}
