//! Providers that refuse, put off, or say nothing, and claims that end badly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use shared::send::Lane;
use shared::store::messages::insert::NewMessage;
use worker_delivery::provider::stub::Stub;
use worker_delivery::provider::{Email, Outcome};

use crate::place::{Place, SOON};

#[tokio::test]
async fn a_refusal_for_now_is_retried_as_a_row() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann+defer451@example.com"), None).await;
    let message = place.message(ann);
    place.queue(std::slice::from_ref(&message)).await;
    let row = place.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.failures, row.ambiguous), ("queued", 1, 0));
    assert!(row.reason.as_deref().unwrap().starts_with("retrying: 451"), "{row:?}");
    assert!((5..=15).contains(&place.due_in(&row).unwrap()), "{row:?}");
    place.drained().await;
    // The hand-over that came first says nothing about the retry.
    place.hand_over(&[(message.id, 0)]).await;
    place.drained().await;
    assert_eq!(place.row(message.id).await.unwrap().attempt, 1);
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
async fn a_lease_that_ran_out_counts_as_ambiguous() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let (once, twice) = (place.message(ann), place.message(ann));
    place.insert(&[once.clone(), twice.clone()]).await;
    // As a worker leaves them that was killed in a call: the second for the second time.
    let sql = "UPDATE message SET claimed = true, attempt = $3, ambiguous = $3 - 1, due_at = now() - interval '1 second' \
               WHERE project_id = $1 AND id = $2";
    let db = place.store.connection().await.unwrap();
    for (message, attempt) in [(&once, 1), (&twice, 2)] {
        db.execute(sql, &[&place.project, &message.id, &attempt]).await.unwrap();
    }
    // A hand-over from before the claim does not touch them.
    place.hand_over(&[(once.id, 0), (twice.id, 0)]).await;
    place.drained().await;
    assert!(place.row(once.id).await.unwrap().claimed);
    assert_eq!(place.sweep().await, 2);
    let row = place.settled(once.id, 2).await;
    assert_eq!((row.status.as_str(), row.ambiguous), ("sent", 1));
    let row = place.settled(twice.id, 3).await;
    assert_eq!((row.status.as_str(), row.ambiguous), ("failed", 2));
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
