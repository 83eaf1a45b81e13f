//! Direct messages (`POST /messages`), which have no row yet.

use async_nats::jetstream::stream::Stream;
use bytes::Bytes;
use database::time_partitions;
use futures_util::TryStreamExt;
use futures_util::future::join_all;
use kernel::ids::{self, UserKey};
use serde_json::json;
use store_profiles::users::removals;
use store_sending::erasures::{self, Erased};
use testkit::eventually;
use uuid::Uuid;
use wire::event::id_bytes;
use wire::send::DirectMessage;

use crate::fixture::{Fixture, SOON};

const DAY_MS: i64 = 86_400_000;

/// Waits until the dead-letter stream holds `count` messages; returns it with their reasons.
async fn refused(fixture: &Fixture, count: u64) -> (Stream, Vec<String>) {
    let dead = async || {
        let mut stream =
            fixture.bus.jetstream.get_stream(fixture.bus.names.dead_stream()).await.map_err(|e| e.to_string())?;
        let found = stream.info().await.map_err(|e| e.to_string())?.state.messages;
        if found == count { Ok(stream) } else { Err(format!("{found} refused")) }
    };
    let stream = eventually(SOON, dead).await;
    let mut reasons = Vec::new();
    for seq in 1..=count {
        let message = stream.get_raw_message(seq).await.unwrap();
        reasons.push(message.headers.get("Rekindle-Reason").unwrap().to_string());
    }
    (stream, reasons)
}

#[tokio::test]
async fn a_direct_message_gets_its_row_and_is_sent_once() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    // The external ID does not exist; the internal ID is Ann's.
    let (id, message) = fixture.direct(&[Uuid::from_u128(5), ann], &json!({ "subject": "Code", "body": "1 < 2\n42" }));
    fixture.send_direct(vec![message.clone()]).await;
    fixture.send_direct(vec![message.clone(), message]).await;
    let mails = mailbox.wait_for(1, SOON).await;
    fixture.drained().await;
    assert_eq!(mailbox.mails().len(), 1);
    assert_eq!(mails[0].header("Subject").as_deref(), Some("Code"));
    let row = fixture.settled(id, 1).await;
    assert_eq!((row.status.as_str(), row.user_id, row.attempt), ("sent", ann, 1));
    fixture.stop().await;
}

#[tokio::test]
async fn direct_message_waits_for_a_user_not_yet_recorded() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let late = UserKey::External("late").internal_id(fixture.project);
    let (id, message) = fixture.direct(&[Uuid::from_u128(5), late], &json!({ "subject": "Hi", "body": "x" }));
    let (lost, mut never) = fixture.direct(&[Uuid::from_u128(6)], &json!({ "subject": "Hi", "body": "x" }));
    never.accepted_ms -= 46_000;
    fixture.send_direct(vec![message, never]).await;
    let row = fixture.settled(id, 1).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref()), ("queued", Some("user_not_found")));
    assert!(fixture.due_in(&row).unwrap() <= 2, "{row:?}");
    let row = fixture.settled(lost, 1).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref()), ("failed", Some("user_not_found")));
    assert_eq!(fixture.user("late", Some("late@example.com"), None).await, late);
    fixture.bring_forward(id).await;
    assert_eq!(mailbox.wait_for(1, SOON).await[0].delivered_to(), ["late@example.com"]);
    let row = fixture.settled(id, 2).await;
    assert_eq!((row.status.as_str(), row.user_id, row.failures), ("sent", late, 0));
    fixture.stop().await;
}

#[tokio::test]
async fn unreadable_messages_become_dead_letters_and_others_continue() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let (_, good) = fixture.direct(&[ann], &json!({ "subject": "Hi", "body": "x" }));
    let (_, mut not_json) = fixture.direct(&[ann], &json!({}));
    not_json.content = Bytes::from_static(b"{");
    // Valid JSON with a text that the database refuses.
    let (_, unstorable) = fixture.direct(&[ann], &json!({ "subject": "a\0b", "body": "x" }));
    fixture.publish(Bytes::from_static(b"\xff\xffnothing")).await;
    fixture.send_direct(vec![not_json, unstorable, good]).await;
    mailbox.wait_for(1, SOON).await;
    fixture.drained().await;
    let (stream, reasons) = refused(&fixture, 3).await;
    assert!(reasons.iter().any(|r| r.starts_with("content:")), "{reasons:?}");
    assert!(stream.consumers().try_collect::<Vec<_>>().await.unwrap().is_empty());
    fixture.stop().await;
}

#[tokio::test]
async fn direct_message_of_a_dropped_partition_is_rejected_without_delaying_others() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let (id, good) = fixture.direct(&[ann], &json!({ "subject": "Hi", "body": "x" }));
    let past = ids::fresh(fixture.clock.now_ms() - 400 * DAY_MS);
    let repeated = DirectMessage { message_id: id_bytes(past), ..good.clone() };
    fixture.send_direct(vec![repeated, good]).await;
    mailbox.wait_for(1, SOON).await;
    let (_, reasons) = refused(&fixture, 1).await;
    assert_eq!(reasons, ["the message is older than the retention period"]);
    fixture.drained().await;
    assert_eq!(fixture.settled(id, 1).await.status, "sent");
    assert_eq!(mailbox.mails().len(), 1);
    fixture.stop().await;
}

#[tokio::test]
async fn direct_message_waits_for_a_missing_partition() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let (_, direct) = fixture.direct(&[ann], &json!({ "subject": "Hi", "body": "x" }));
    let later = fixture.clock.now_ms() + 60 * DAY_MS;
    let id = ids::fresh(later);
    fixture.send_direct(vec![DirectMessage { message_id: id_bytes(id), ..direct }]).await;
    eventually(SOON, async || {
        let stream =
            fixture.bus.jetstream.get_stream(fixture.bus.names.send_stream()).await.map_err(|e| e.to_string())?;
        let consumers = stream.consumers().try_collect::<Vec<_>>().await.map_err(|e| e.to_string())?;
        let is_again = consumers.iter().any(|consumer| consumer.num_redelivered > 0);
        if is_again { Ok(()) } else { Err("not delivered again".to_owned()) }
    })
    .await;
    time_partitions::ensure(&mut fixture.store.connection().await.unwrap(), later).await.unwrap();
    mailbox.wait_for(1, SOON).await;
    assert_eq!(fixture.settled(id, 1).await.status, "sent");
    fixture.drained().await;
    assert_eq!(refused(&fixture, 0).await.1, Vec::<String>::new());
    fixture.stop().await;
}

#[tokio::test]
async fn test_send_uses_its_address_and_is_not_retried() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    // To an unknown user, and to an address other than the user's own.
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    for user in [Uuid::nil(), ann] {
        let content = json!({ "subject": "A test", "body": "x", "test": true, "to": "ops@example.com" });
        let (id, message) = fixture.direct(&[user], &content);
        fixture.send_direct(vec![message]).await;
        assert_eq!(fixture.settled(id, 1).await.status, "sent");
    }
    let mails = mailbox.wait_for(2, SOON).await;
    assert!(mails.iter().all(|mail| mail.header("To").is_some_and(|to| to.contains("ops@example.com"))), "{mails:?}");
    // A test of a campaign, rendered for Ann.
    let template = fixture.template("{{ campaign.name }} for {{ user.properties.plan }}", "<p>Hi</p>").await;
    let (id, mut message) = fixture.direct(&[ann], &json!({ "test": true, "to": "ops@example.com" }));
    message.template_id = id_bytes(template);
    message.data = json!({ "campaign": { "name": "Sale" } }).to_string().into();
    fixture.send_direct(vec![message]).await;
    assert_eq!(fixture.settled(id, 1).await.subject.as_deref(), Some("Sale for pro"));
    let last = mailbox.wait_for(3, SOON).await.pop().unwrap();
    assert!(last.header("To").is_some_and(|to| to.contains("ops@example.com")), "{last:?}");
    // Nothing listens there: a test send is not retried.
    fixture.configure(1, json!({}), None).await;
    let (id, message) = fixture.direct(&[ann], &json!({ "subject": "A test", "body": "x", "test": true }));
    fixture.send_direct(vec![message]).await;
    let row = fixture.settled(id, 1).await;
    assert_eq!((row.status.as_str(), row.due_at), ("failed", None), "{row:?}");
    assert!(row.reason.as_deref().unwrap().starts_with("unavailable: "), "{row:?}");
    fixture.stop().await;
}

/// Chunks begun by workers.
const SEEN: &str = "CREATE TABLE begun_seen (messages bigint);
    CREATE FUNCTION see_begun() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO begun_seen SELECT sum(size) FROM new WHERE is_begun HAVING count(*) > 0;
        RETURN NULL;
    END $$;
    CREATE TRIGGER see_begun AFTER INSERT ON send_chunk REFERENCING NEW TABLE AS new
        FOR EACH STATEMENT EXECUTE FUNCTION see_begun()";

#[tokio::test]
async fn messages_of_a_busy_project_are_begun_in_batches() {
    const MANY: i64 = 600;
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    fixture.store.connection().await.unwrap().batch_execute(SEEN).await.unwrap();
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let codes = (0..MANY).map(|_| fixture.direct(&[ann], &json!({ "subject": "Code", "body": "42" })).1);
    join_all(codes.map(|message| fixture.send_direct(vec![message]))).await;
    mailbox.wait_for(MANY.unsigned_abs() as usize, SOON).await;
    fixture.drained().await;
    let sql = "SELECT count(*), sum(messages)::bigint FROM begun_seen";
    let row = fixture.store.connection().await.unwrap().query_one(sql, &[]).await.unwrap();
    let (batches, messages): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!(messages, MANY);
    assert!(4 * batches <= MANY, "{batches} batches of {MANY} messages");
    fixture.stop().await;
}

/// The erasure may be committed at any time between reading its users and inserting the message's row.
#[tokio::test]
async fn direct_message_concurrent_with_an_erasure_leaves_no_row() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let (id, message) = fixture.direct(&[ann], &json!({ "subject": "Hi", "body": "x" }));
    let now = fixture.clock.now();
    let mut db = fixture.store.connection().await.unwrap();
    let erased = [(fixture.project, ann)];
    removals::announce(&mut db, &erased).await.unwrap();
    let tx = db.transaction().await.unwrap();
    removals::lock(&tx, &erased, &[]).await.unwrap();
    erasures::record(&tx, fixture.project, &[ann], Erased { accepted: now, applied: now }, false).await.unwrap();
    fixture.send_direct(vec![message]).await;
    // Recording waits for the erasure, and reads users only afterwards.
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let other = fixture.store.connection().await.unwrap();
    eventually(SOON, async || {
        let count: i64 = other.query_one(waiting, &[]).await.unwrap().get(0);
        if count > 0 { Ok(()) } else { Err("no query waits for the erasure".to_owned()) }
    })
    .await;
    removals::finish(&tx, &erased).await.unwrap();
    tx.commit().await.unwrap();
    fixture.drained().await;
    assert!(fixture.row(id).await.is_none());
    assert!(mailbox.mails().is_empty());
    fixture.stop().await;
}
