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

use crate::place::{Place, SOON};

const DAY_MS: i64 = 86_400_000;

/// Waits until the dead-letter stream holds `count` messages; returns it with their reasons.
async fn refused(place: &Place, count: u64) -> (Stream, Vec<String>) {
    let dead = async || {
        let mut stream =
            place.bus.jetstream.get_stream(place.bus.names.dead_stream()).await.map_err(|e| e.to_string())?;
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
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    // The external ID does not exist; the internal ID is Ann's.
    let (id, message) = place.direct(&[Uuid::from_u128(5), ann], &json!({ "subject": "Code", "body": "1 < 2\n42" }));
    place.send_direct(vec![message.clone()]).await;
    place.send_direct(vec![message.clone(), message]).await;
    let mails = mailbox.wait_for(1, SOON).await;
    place.drained().await;
    assert_eq!(mailbox.mails().len(), 1);
    assert_eq!(mails[0].header("Subject").as_deref(), Some("Code"));
    let row = place.settled(id, 1).await;
    assert_eq!((row.status.as_str(), row.user_id, row.attempt), ("sent", ann, 1));
    place.stop().await;
}

#[tokio::test]
async fn a_direct_message_waits_for_a_user_who_is_on_the_way() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let late = UserKey::External("late").internal_id(place.project);
    let (id, message) = place.direct(&[Uuid::from_u128(5), late], &json!({ "subject": "Hi", "body": "x" }));
    let (lost, mut never) = place.direct(&[Uuid::from_u128(6)], &json!({ "subject": "Hi", "body": "x" }));
    never.accepted_ms -= 46_000;
    place.send_direct(vec![message, never]).await;
    let row = place.settled(id, 1).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref()), ("queued", Some("user_not_found")));
    assert!(place.due_in(&row).unwrap() <= 2, "{row:?}");
    let row = place.settled(lost, 1).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref()), ("failed", Some("user_not_found")));
    assert_eq!(place.user("late", Some("late@example.com"), None).await, late);
    place.bring_forward(id).await;
    assert_eq!(mailbox.wait_for(1, SOON).await[0].delivered_to(), ["late@example.com"]);
    let row = place.settled(id, 2).await;
    assert_eq!((row.status.as_str(), row.user_id, row.failures), ("sent", late, 0));
    place.stop().await;
}

#[tokio::test]
async fn what_cannot_be_read_is_put_aside_and_the_rest_goes_on() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let (_, good) = place.direct(&[ann], &json!({ "subject": "Hi", "body": "x" }));
    let (_, mut not_json) = place.direct(&[ann], &json!({}));
    not_json.content = Bytes::from_static(b"{");
    // Valid JSON with a text that the database refuses.
    let (_, unstorable) = place.direct(&[ann], &json!({ "subject": "a\0b", "body": "x" }));
    place.publish(Bytes::from_static(b"\xff\xffnothing")).await;
    place.send_direct(vec![not_json, unstorable, good]).await;
    mailbox.wait_for(1, SOON).await;
    place.drained().await;
    let (stream, reasons) = refused(&place, 3).await;
    assert!(reasons.iter().any(|r| r.starts_with("content:")), "{reasons:?}");
    assert!(stream.consumers().try_collect::<Vec<_>>().await.unwrap().is_empty());
    place.stop().await;
}

#[tokio::test]
async fn a_direct_message_of_a_dropped_partition_is_refused_and_delays_no_other() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let (id, good) = place.direct(&[ann], &json!({ "subject": "Hi", "body": "x" }));
    let past = ids::fresh(place.clock.now_ms() - 400 * DAY_MS);
    let repeated = DirectMessage { message_id: id_bytes(past), ..good.clone() };
    place.send_direct(vec![repeated, good]).await;
    mailbox.wait_for(1, SOON).await;
    let (_, reasons) = refused(&place, 1).await;
    assert_eq!(reasons, ["the message is older than the retention period"]);
    place.drained().await;
    assert_eq!(place.settled(id, 1).await.status, "sent");
    assert_eq!(mailbox.mails().len(), 1);
    place.stop().await;
}

#[tokio::test]
async fn a_direct_message_waits_for_a_partition_that_is_still_to_be_made() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let (_, direct) = place.direct(&[ann], &json!({ "subject": "Hi", "body": "x" }));
    let later = place.clock.now_ms() + 60 * DAY_MS;
    let id = ids::fresh(later);
    place.send_direct(vec![DirectMessage { message_id: id_bytes(id), ..direct }]).await;
    eventually(SOON, async || {
        let stream = place.bus.jetstream.get_stream(place.bus.names.send_stream()).await.map_err(|e| e.to_string())?;
        let consumers = stream.consumers().try_collect::<Vec<_>>().await.map_err(|e| e.to_string())?;
        let is_again = consumers.iter().any(|consumer| consumer.num_redelivered > 0);
        if is_again { Ok(()) } else { Err("not delivered again".to_owned()) }
    })
    .await;
    time_partitions::ensure(&mut place.store.connection().await.unwrap(), later).await.unwrap();
    mailbox.wait_for(1, SOON).await;
    assert_eq!(place.settled(id, 1).await.status, "sent");
    place.drained().await;
    assert_eq!(refused(&place, 0).await.1, Vec::<String>::new());
    place.stop().await;
}

#[tokio::test]
async fn a_test_goes_to_its_address_and_ends_with_its_only_call() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    // To an unknown user, and to an address other than the user's own.
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    for user in [Uuid::nil(), ann] {
        let content = json!({ "subject": "A test", "body": "x", "test": true, "to": "ops@example.com" });
        let (id, message) = place.direct(&[user], &content);
        place.send_direct(vec![message]).await;
        assert_eq!(place.settled(id, 1).await.status, "sent");
    }
    let mails = mailbox.wait_for(2, SOON).await;
    assert!(mails.iter().all(|mail| mail.header("To").is_some_and(|to| to.contains("ops@example.com"))), "{mails:?}");
    // A test of a campaign, rendered for Ann.
    let template = place.template("{{ campaign.name }} for {{ user.properties.plan }}", "<p>Hi</p>").await;
    let (id, mut message) = place.direct(&[ann], &json!({ "test": true, "to": "ops@example.com" }));
    message.template_id = id_bytes(template);
    message.data = json!({ "campaign": { "name": "Sale" } }).to_string().into();
    place.send_direct(vec![message]).await;
    assert_eq!(place.settled(id, 1).await.subject.as_deref(), Some("Sale for pro"));
    let last = mailbox.wait_for(3, SOON).await.pop().unwrap();
    assert!(last.header("To").is_some_and(|to| to.contains("ops@example.com")), "{last:?}");
    // Nothing listens there: a test send is not retried.
    place.configure(1, json!({}), None).await;
    let (id, message) = place.direct(&[ann], &json!({ "subject": "A test", "body": "x", "test": true }));
    place.send_direct(vec![message]).await;
    let row = place.settled(id, 1).await;
    assert_eq!((row.status.as_str(), row.due_at), ("failed", None), "{row:?}");
    assert!(row.reason.as_deref().unwrap().starts_with("unavailable: "), "{row:?}");
    place.stop().await;
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
async fn a_busy_projects_messages_are_begun_several_at_a_time() {
    const MANY: i64 = 600;
    let (mut place, mailbox) = Place::with_mailbox().await;
    place.store.connection().await.unwrap().batch_execute(SEEN).await.unwrap();
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let codes = (0..MANY).map(|_| place.direct(&[ann], &json!({ "subject": "Code", "body": "42" })).1);
    join_all(codes.map(|message| place.send_direct(vec![message]))).await;
    mailbox.wait_for(MANY.unsigned_abs() as usize, SOON).await;
    place.drained().await;
    let sql = "SELECT count(*), sum(messages)::bigint FROM begun_seen";
    let row = place.store.connection().await.unwrap().query_one(sql, &[]).await.unwrap();
    let (batches, messages): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!(messages, MANY);
    assert!(4 * batches <= MANY, "{batches} batches of {MANY} messages");
    place.stop().await;
}

/// The erasure may be committed at any time between reading its users and inserting the message's row.
#[tokio::test]
async fn a_direct_message_that_meets_an_erasure_leaves_no_row() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let (id, message) = place.direct(&[ann], &json!({ "subject": "Hi", "body": "x" }));
    let now = place.clock.now();
    let mut db = place.store.connection().await.unwrap();
    let erased = [(place.project, ann)];
    removals::announce(&mut db, &erased).await.unwrap();
    let tx = db.transaction().await.unwrap();
    removals::lock(&tx, &erased, &[]).await.unwrap();
    erasures::record(&tx, place.project, &[ann], Erased { accepted: now, applied: now }, false).await.unwrap();
    place.send_direct(vec![message]).await;
    // Recording waits for the erasure, and reads users only afterwards.
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let other = place.store.connection().await.unwrap();
    eventually(SOON, async || {
        let count: i64 = other.query_one(waiting, &[]).await.unwrap().get(0);
        if count > 0 { Ok(()) } else { Err("no query waits for the erasure".to_owned()) }
    })
    .await;
    removals::finish(&tx, &erased).await.unwrap();
    tx.commit().await.unwrap();
    place.drained().await;
    assert!(place.row(id).await.is_none());
    assert!(mailbox.mails().is_empty());
    place.stop().await;
}
