//! Messages that fail for a reason outside the message are kept as dead letters, and sent again on request; and dead
//! letters of deleted projects.

use bus::wake::wake;
use database::filter::Start;
use serde_json::json;
use store_projects::projects;
use store_sending::dead_letters::{self, DeadFilter, Replayed};
use testkit::TestMailbox;
use uuid::Uuid;

use crate::place::{Place, SOON};

async fn dead(place: &Place) -> Vec<Uuid> {
    let mut db = place.store.connection().await.unwrap();
    let found =
        dead_letters::list(&mut db, place.project, &DeadFilter::default(), &Start::Offset(0), 100).await.unwrap();
    found.into_iter().map(|letter| letter.id).collect()
}

async fn replay(place: &Place) -> Replayed {
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let now = place.clock.now();
    let replayed = dead_letters::replay(&tx, place.project, &DeadFilter::default(), 100, now).await.unwrap();
    tx.commit().await.unwrap();
    wake(&place.bus, &replayed.queues).await;
    replayed
}

#[tokio::test]
async fn a_message_that_failed_for_want_of_a_channel_is_sent_once_when_there_is_one() {
    let mailbox = TestMailbox::start().await;
    let mut place = Place::new().await;
    place.run().await;
    let (ann, bob) =
        (place.user("ann", Some("ann@example.com"), None).await, place.user("bob", Some("bob"), None).await);
    let (to_ann, to_bob) = (place.message(ann), place.message(bob));
    place.queue(&[to_ann.clone(), to_bob.clone()]).await;
    assert_eq!(place.settled(to_ann.id, 1).await.reason.as_deref(), Some("channel_not_configured"));
    // An invalid recipient address makes no dead letter.
    assert_eq!(place.settled(to_bob.id, 1).await.reason.as_deref(), Some("invalid_address"));
    assert_eq!(dead(&place).await, [to_ann.id]);

    place.configure(mailbox.port(), json!({}), None).await;
    assert_eq!(replay(&place).await.messages, 1);
    assert_eq!((dead(&place).await, replay(&place).await), (Vec::new(), Replayed::default()));
    let row = place.settled(to_ann.id, 2).await;
    assert_eq!((row.status.as_str(), row.attempt, row.failures), ("sent", 2, 0));
    assert_eq!((mailbox.wait_for(1, SOON).await.len(), dead(&place).await), (1, Vec::new()));
    place.stop().await;
}

#[tokio::test]
async fn calls_of_before_do_not_forbid_another_try() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let message = place.message(ann);
    place.insert_later(std::slice::from_ref(&message)).await;
    let db = place.store.connection().await.unwrap();
    let sql = "UPDATE message SET status = 'failed', status_reason = 'outcome_unknown: silence', ambiguous = 2, attempt = 2, \
               dead = true";
    db.execute(sql, &[]).await.unwrap();
    db.execute("DELETE FROM send_chunk", &[]).await.unwrap();
    assert_eq!(replay(&place).await.messages, 1);
    let row = place.settled(message.id, 3).await;
    assert_eq!((row.status.as_str(), row.ambiguous), ("sent", 2));
    mailbox.wait_for(1, SOON).await;
    place.stop().await;
}

#[tokio::test]
async fn nothing_is_sent_for_a_deleted_project() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let queued = place.message(ann);
    place.insert_later(std::slice::from_ref(&queued)).await;
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let project = projects::get_for_update(&tx, place.project).await.unwrap().unwrap();
    projects::remove(&tx, &project, place.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    place.bring_forward(queued.id).await;
    let (id, direct) = place.direct(&[ann], &json!({ "subject": "a", "body": "b" }));
    place.send_direct(vec![direct]).await;
    place.drained().await;
    // By then the worker has polled the queue.
    let deleted = place.project;
    place.project = place.another_project().await;
    place.configure(mailbox.port(), json!({}), None).await;
    let bob = place.user("bob", Some("bob@example.com"), None).await;
    let other = place.message(bob);
    place.queue(std::slice::from_ref(&other)).await;
    assert_eq!(place.settled(other.id, 1).await.status, "sent");
    place.project = deleted;
    let row = place.row(queued.id).await.unwrap();
    assert_eq!((row.status.as_str(), row.attempt), ("queued", 0));
    assert!(place.row(id).await.is_none());
    assert_eq!(mailbox.mails().len(), 1);
    place.stop().await;
}
