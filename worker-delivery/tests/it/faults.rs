//! Providers that refuse, defer, or do not answer, and attempts that are never settled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::message::Lane;
use providers::stub::Stub;
use providers::{Email, Outcome};
use serde_json::json;
use store_sending::messages::insert::NewMessage;

use crate::fixture::{Fixture, SOON};

#[tokio::test]
async fn a_temporary_refusal_is_retried() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann+defer451@example.com"), None).await;
    let message = fixture.message(ann);
    fixture.queue(std::slice::from_ref(&message)).await;
    let row = fixture.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.failures, row.ambiguous), ("queued", 1, 0));
    assert!(row.reason.as_deref().unwrap().starts_with("retrying: 451"), "{row:?}");
    assert!((5..=15).contains(&fixture.due_in(&row).unwrap()), "{row:?}");
    let sql = "UPDATE users SET email = 'ann@example.com' WHERE project_id = $1";
    fixture.store.connection().await.unwrap().execute(sql, &[&fixture.project]).await.unwrap();
    fixture.bring_forward(message.id).await;
    mailbox.wait_for(1, SOON).await;
    let row = fixture.settled(message.id, 2).await;
    assert_eq!((row.status.as_str(), row.reason, row.failures), ("sent", None, 1));
    fixture.stop().await;
}

#[tokio::test]
async fn permanent_refusal_fails_with_the_providers_text() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann+reject550@example.com"), None).await;
    let message = fixture.message(ann);
    fixture.queue(std::slice::from_ref(&message)).await;
    let row = fixture.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.due_at), ("failed", None));
    assert!(row.reason.as_deref().unwrap().starts_with("rejected: 550"), "{row:?}");
    fixture.drained().await;
    assert!(mailbox.mails().is_empty());
    fixture.stop().await;
}

#[tokio::test]
async fn call_without_a_response_is_repeated_once() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann+unanswered@example.com"), None).await;
    let message = fixture.message(ann);
    fixture.queue(std::slice::from_ref(&message)).await;
    let row = fixture.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.failures, row.ambiguous), ("queued", 0, 1));
    assert!(row.reason.as_deref().unwrap().starts_with("outcome_unknown"), "{row:?}");
    fixture.bring_forward(message.id).await;
    let row = fixture.settled(message.id, 2).await;
    assert_eq!((row.status.as_str(), row.ambiguous, row.due_at), ("failed", 2, None));
    let mails = mailbox.mails();
    assert_eq!(mails.len(), 2);
    assert_eq!(mails[0].header("Message-ID"), mails[1].header("Message-ID"));
    fixture.stop().await;
}

#[tokio::test]
async fn campaign_mail_is_not_repeated_without_a_response() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann+unanswered@example.com"), None).await;
    let message = NewMessage { lane: Lane::Campaign, ..fixture.message(ann) };
    fixture.queue(std::slice::from_ref(&message)).await;
    let row = fixture.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.ambiguous, row.due_at), ("failed", 1, None));
    assert_eq!(mailbox.mails().len(), 1);
    fixture.stop().await;
}

#[tokio::test]
async fn expired_lease_counts_as_ambiguous() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let (once, twice) = (fixture.message(ann), fixture.message(ann));
    let campaigns = NewMessage { lane: Lane::Campaign, ..fixture.message(ann) };
    // The state that a worker leaves when it is killed during a call: for `twice`, the second time.
    let lease = fixture.clock.now() + Duration::from_hours(1);
    fixture.insert_begun(&[once.clone(), twice.clone()], lease).await;
    fixture.insert_begun(std::slice::from_ref(&campaigns), lease).await;
    let sql = "UPDATE message SET attempt = 1, ambiguous = 1 WHERE id = $1";
    fixture.store.connection().await.unwrap().execute(sql, &[&twice.id]).await.unwrap();
    fixture.bring_forward(twice.id).await;
    fixture.bring_forward(campaigns.id).await;
    let row = fixture.settled(once.id, 2).await;
    assert_eq!((row.status.as_str(), row.ambiguous), ("sent", 1));
    let row = fixture.settled(twice.id, 3).await;
    assert_eq!((row.status.as_str(), row.ambiguous), ("failed", 2));
    let row = fixture.settled(campaigns.id, 2).await;
    assert_eq!((row.status.as_str(), row.ambiguous), ("failed", 1));
    assert!(row.reason.as_deref().unwrap().starts_with("outcome_unknown"), "{row:?}");
    assert_eq!(mailbox.wait_for(1, SOON).await.len(), 1);
    fixture.stop().await;
}

#[tokio::test]
async fn panic_in_one_message_does_not_affect_others() {
    let mut fixture = Fixture::new().await;
    let (ann, eve) = (
        fixture.user("ann", Some("ann@example.com"), None).await,
        fixture.user("eve", Some("eve@example.com"), None).await,
    );
    let stub = Stub::new(|email: &Email| {
        assert_ne!(email.to.email.to_string(), "eve@example.com", "panicking on purpose");
        Outcome::Accepted("1".to_owned())
    });
    fixture.run_with_stub(stub).await;
    let messages = [fixture.message(ann), fixture.message(eve), fixture.message(ann)];
    fixture.queue(&messages).await;
    let row = fixture.settled(messages[1].id, 1).await;
    assert!(row.status == "failed" && row.reason.as_deref().unwrap().starts_with("internal_error"), "{row:?}");
    for message in [&messages[0], &messages[2]] {
        assert_eq!(fixture.settled(message.id, 1).await.status, "sent");
    }
    fixture.drained().await;
    fixture.stop().await;
}

#[tokio::test]
async fn message_fails_after_eight_failures() {
    let mut fixture = Fixture::new().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    fixture
        .run_with_stub(Stub::new(move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
            Outcome::Throttled { after: None, why: "busy".to_owned() }
        }))
        .await;
    let mut message = fixture.message(ann);
    message.content = json!({ "subject": "a", "body": "b" });
    fixture.queue(std::slice::from_ref(&message)).await;
    for attempt in 1..8 {
        assert_eq!(fixture.settled(message.id, attempt).await.status, "queued");
        fixture.bring_forward(message.id).await;
    }
    let row = fixture.settled(message.id, 8).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref(), row.failures), ("failed", Some("gave_up: busy"), 8));
    assert_eq!(calls.load(Ordering::SeqCst), 8);
    fixture.stop().await;
}

#[tokio::test]
async fn begun_message_is_not_taken_over_before_its_lease_ends() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let begun = fixture.message(ann);
    fixture.insert_begun(std::slice::from_ref(&begun), fixture.clock.now() + Duration::from_hours(1)).await;
    for _ in 0..2 {
        // Uses the same queue, so that a worker polls it.
        let other = fixture.message(ann);
        fixture.queue(std::slice::from_ref(&other)).await;
        assert_eq!(fixture.settled(other.id, 1).await.status, "sent");
    }
    let row = fixture.row(begun.id).await.unwrap();
    assert!(row.is_begun && row.attempt == 0 && row.ambiguous == 0, "{row:?}");
    assert_eq!(mailbox.mails().len(), 2);
    fixture.bring_forward(begun.id).await;
    let row = fixture.settled(begun.id, 2).await;
    assert_eq!((row.status.as_str(), row.ambiguous), ("sent", 1));
    fixture.stop().await;
}

#[tokio::test]
async fn retries_of_a_batch_share_few_chunks() {
    const MANY: usize = 384;
    let mut fixture = Fixture::new().await;
    fixture.addresses = vec![("DELIVERY_CONCURRENCY", "256".to_owned())];
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    fixture.run_with_stub(Stub::new(|_| Outcome::Throttled { after: None, why: "busy".to_owned() })).await;
    let messages: Vec<_> = (0..MANY).map(|_| fixture.message(ann)).collect();
    fixture.queue(&messages).await;
    for message in &messages {
        assert_eq!(fixture.settled(message.id, 1).await.status, "queued");
    }
    fixture.assert_queue_is_whole().await;
    let sql = "SELECT count(*) FROM send_chunk WHERE project_id = $1";
    let chunks: i64 =
        fixture.store.connection().await.unwrap().query_one(sql, &[&fixture.project]).await.unwrap().get(0);
    assert!(chunks * 4 <= MANY as i64, "{chunks} chunks");
    fixture.stop().await;
}
