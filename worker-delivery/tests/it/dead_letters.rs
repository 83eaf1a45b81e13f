//! Messages that fail for a reason outside the message are kept as dead letters, and sent again on request; and dead
//! letters of deleted projects.

use bus::wake::wake;
use database::filter::PageStart;
use serde_json::json;
use store_projects::projects;
use store_sending::dead_letters::{self, DeadFilter, Replayed};
use testkit::TestMailbox;
use uuid::Uuid;

use crate::fixture::{Fixture, SOON};

async fn dead(fixture: &Fixture) -> Vec<Uuid> {
    let mut db = fixture.store.connection().await.unwrap();
    let found =
        dead_letters::list(&mut db, fixture.project, &DeadFilter::default(), &PageStart::Offset(0), 100).await.unwrap();
    found.into_iter().map(|letter| letter.id).collect()
}

async fn replay(fixture: &Fixture) -> Replayed {
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let now = fixture.clock.now();
    let replayed = dead_letters::replay(&tx, fixture.project, &DeadFilter::default(), 100, now).await.unwrap();
    tx.commit().await.unwrap();
    wake(&fixture.bus, &replayed.queues).await;
    replayed
}

#[tokio::test]
async fn message_that_failed_without_a_channel_is_sent_once_it_is_configured() {
    let mailbox = TestMailbox::start().await;
    let mut fixture = Fixture::new().await;
    fixture.run().await;
    let (ann, bob) =
        (fixture.user("ann", Some("ann@example.com"), None).await, fixture.user("bob", Some("bob"), None).await);
    let (to_ann, to_bob) = (fixture.message(ann), fixture.message(bob));
    fixture.queue(&[to_ann.clone(), to_bob.clone()]).await;
    assert_eq!(fixture.settled(to_ann.id, 1).await.reason.as_deref(), Some("channel_not_configured"));
    // An invalid recipient address makes no dead letter.
    assert_eq!(fixture.settled(to_bob.id, 1).await.reason.as_deref(), Some("invalid_address"));
    assert_eq!(dead(&fixture).await, [to_ann.id]);

    fixture.configure(mailbox.port(), json!({}), None).await;
    assert_eq!(replay(&fixture).await.messages, 1);
    assert_eq!((dead(&fixture).await, replay(&fixture).await), (Vec::new(), Replayed::default()));
    let row = fixture.settled(to_ann.id, 2).await;
    assert_eq!((row.status.as_str(), row.attempt, row.failures), ("sent", 2, 0));
    assert_eq!((mailbox.wait_for(1, SOON).await.len(), dead(&fixture).await), (1, Vec::new()));
    fixture.stop().await;
}

#[tokio::test]
async fn replay_is_allowed_despite_earlier_calls() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let message = fixture.message(ann);
    fixture.insert_later(std::slice::from_ref(&message)).await;
    let db = fixture.store.connection().await.unwrap();
    let sql = "UPDATE message SET status = 'failed', status_reason = 'outcome_unknown: silence', ambiguous = 2, attempt = 2, \
               dead = true";
    db.execute(sql, &[]).await.unwrap();
    db.execute("DELETE FROM send_chunk", &[]).await.unwrap();
    assert_eq!(replay(&fixture).await.messages, 1);
    let row = fixture.settled(message.id, 3).await;
    assert_eq!((row.status.as_str(), row.ambiguous), ("sent", 2));
    mailbox.wait_for(1, SOON).await;
    fixture.stop().await;
}

#[tokio::test]
async fn nothing_is_sent_for_a_deleted_project() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let queued = fixture.message(ann);
    fixture.insert_later(std::slice::from_ref(&queued)).await;
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let project = projects::get_for_update(&tx, fixture.project).await.unwrap().unwrap();
    projects::remove(&tx, &project, fixture.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    fixture.bring_forward(queued.id).await;
    let (id, direct) = fixture.direct(&[ann], &json!({ "subject": "a", "body": "b" }));
    fixture.send_direct(vec![direct]).await;
    fixture.drained().await;
    // By then the worker has polled the queue.
    let deleted = fixture.project;
    fixture.project = fixture.another_project().await;
    fixture.configure(mailbox.port(), json!({}), None).await;
    let bob = fixture.user("bob", Some("bob@example.com"), None).await;
    let other = fixture.message(bob);
    fixture.queue(std::slice::from_ref(&other)).await;
    assert_eq!(fixture.settled(other.id, 1).await.status, "sent");
    fixture.project = deleted;
    let row = fixture.row(queued.id).await.unwrap();
    assert_eq!((row.status.as_str(), row.attempt), ("queued", 0));
    assert!(fixture.row(id).await.is_none());
    assert_eq!(mailbox.mails().len(), 1);
    fixture.stop().await;
}
