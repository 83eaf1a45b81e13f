//! Maintenance tasks.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use bus::{Publisher, topology};
use bytes::Bytes;
use database::ingest_partitions;
use domain::message::{Channel, Lane};
use futures_util::StreamExt;
use jiff::{SignedDuration, Timestamp};
use kernel::clock::{Clock, from_ms};
use scheduler::maintenance::purge::{purge, purge_acknowledged};
use store_sending::erasures::{self, Erased};
use testkit::eventually_true;
use uuid::Uuid;

use crate::place::{Place, SOON};

#[tokio::test]
async fn partitions_are_made_and_workers_that_are_gone_are_forgotten() {
    let mut place = Place::new().await;
    let db = place.store.connection().await.unwrap();
    let newest = "SELECT max(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'message'::regclass \
                  AND inhrelid::regclass::text !~ 'before'";
    let name: String = db.query_one(newest, &[]).await.unwrap().get(0);
    db.batch_execute(&format!("DROP TABLE {name}")).await.unwrap();
    let sql = "INSERT INTO worker (id, kind, seen_until) VALUES (gen_random_uuid(), 'w', now() - interval '1 hour'), \
               (gen_random_uuid(), 'w', now() - interval '1 minute')";
    db.execute(sql, &[]).await.unwrap();
    drop(db);
    place.run().await;
    place.eventually_none("SELECT count(*) FROM worker WHERE seen_until < now() - interval '30 minutes'").await;
    place.eventually_none(&format!("SELECT 1 - count(*) FROM pg_class WHERE relname = '{name}'")).await;
    assert_eq!(place.count("SELECT count(*) FROM worker").await, 1);
    place.stop().await;
}

#[tokio::test]
async fn what_a_new_partition_holds_is_soon_known_to_the_planner() {
    // Never analyzed, or only while it was empty.
    for before in ["", "ANALYZE message"] {
        let mut place = Place::new().await;
        let db = place.store.connection().await.unwrap();
        // Keeps autovacuum from analyzing the table first.
        let off = "DO $$ DECLARE part regclass; BEGIN FOR part IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'message'::regclass \
                   LOOP EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', part); END LOOP; END $$";
        db.batch_execute(off).await.unwrap();
        db.batch_execute(before).await.unwrap();
        let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, created_at, updated_at) \
                   SELECT $1, (lpad(to_hex($2 + n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, gen_random_uuid(), \
                   'EMAIL', 'automation', 'sent', now(), now() FROM generate_series(1, 6000::bigint) n";
        db.execute(sql, &[&place.project, &place.clock.now_ms()]).await.unwrap();
        drop(db);
        let unknown = "SELECT count(*) FROM pg_class WHERE relname LIKE 'message\\_%' AND relkind = 'r' AND relpages = 0 \
                       AND pg_relation_size(oid) >= 512 * 1024";
        assert_eq!(place.count(unknown).await, 1);
        place.run().await;
        place.eventually_none(unknown).await;
        place.stop().await;
    }
}

/// Publishes to two partitions in alternation, and sets how far the first is applied. Nothing of the second is.
async fn fill(place: &Place, messages: u64, bytes: usize, applied: u64) {
    let publisher = Publisher::new(place.bus.clone());
    for n in 0..messages {
        let subject = place.bus.names.ingest((n % 2) as u16);
        publisher.publish(subject, Bytes::from(vec![0; bytes])).await.unwrap();
    }
    publisher.publish(place.bus.names.ingest_canary(), Bytes::new()).await.unwrap();
    publisher.publish(place.bus.names.ingest_canary(), Bytes::new()).await.unwrap();
    let stream = topology::ensure(&place.bus).await.unwrap();
    let db = place.store.connection().await.unwrap();
    ingest_partitions::ensure(&db, stream.partitions, stream.created_ms).await.unwrap();
    let sql = "UPDATE ingest_partition SET applied_seq = $1 WHERE partition = 0";
    db.execute(sql, &[&(applied as i64)]).await.unwrap();
}

async fn left(place: &Place, filter: &str) -> usize {
    place.payloads(&place.bus.names.ingest_stream(), filter).await.len()
}

#[tokio::test]
async fn only_what_was_applied_is_removed_and_only_when_there_is_need() {
    let place = Place::new().await;
    let names = place.bus.names.clone();
    // 20 messages of 20 kB: far below 70 % of a mebibyte.
    fill(&place, 20, 20_000, 11).await;
    purge(place.app().await).await.unwrap();
    assert_eq!((left(&place, &names.ingest(0)).await, left(&place, &names.ingest_canary()).await), (10, 1));
    // 40 messages exceed it. Of the first partition, sequences 1, 3, .. 11 are applied.
    fill(&place, 20, 20_000, 11).await;
    purge(place.app().await).await.unwrap();
    assert_eq!((left(&place, &names.ingest(0)).await, left(&place, &names.ingest(1)).await), (14, 20));
}

/// A broker that lost its newest messages stores the next ones with sequences that were already applied.
#[tokio::test]
async fn what_came_under_sequences_that_were_used_before_stays() {
    let place = Place::new().await;
    let names = place.bus.names.clone();
    fill(&place, 40, 20_000, 11).await;
    let stream = place.bus.jetstream.get_stream(names.ingest_stream()).await.unwrap();
    let stored = stream.get_raw_message(11).await.unwrap().time.unix_timestamp_nanos() as i64;
    for (stored, stay) in [(stored - 1, 20), (stored, 14)] {
        let db = place.store.connection().await.unwrap();
        db.execute("UPDATE ingest_partition SET applied_ns = $1 WHERE partition = 0", &[&stored]).await.unwrap();
        purge(place.app().await).await.unwrap();
        assert_eq!((left(&place, &names.ingest(0)).await, left(&place, &names.ingest(1)).await), (stay, 20));
    }
}

#[tokio::test]
async fn what_is_old_goes_and_what_is_young_stays_for_a_restored_database() {
    let mut place = Place::with([("INGEST_KEEP_HOURS", "1")]).await;
    let names = place.bus.names.clone();
    let left = async |place: &Place| (left(place, &names.ingest(0)).await, left(place, &names.ingest(1)).await);
    fill(&place, 5, 10, 100).await;
    let mut stream = place.bus.jetstream.get_stream(names.ingest_stream()).await.unwrap();
    let time = |message: async_nats::jetstream::message::StreamMessage| message.time.unix_timestamp_nanos() / 1_000_000;
    let before = time(stream.get_raw_message(7).await.unwrap());
    eventually_true("the next millisecond", SOON, async || i128::from(place.clock.now_ms()) > before + 1).await;
    fill(&place, 5, 10, 100).await;
    let after = time(stream.get_raw_message(8).await.unwrap());
    purge(place.app().await).await.unwrap();
    assert_eq!(left(&place).await, (6, 4));
    // An hour has passed since the first messages, but not since the rest; nothing of the second partition is applied.
    place.clock = Clock::manual(from_ms(after as i64 - 1 + 3_600_000));
    purge(place.app().await).await.unwrap();
    assert_eq!(left(&place).await, (3, 4));
    place.clock.advance(Duration::from_mins(1));
    purge(place.app().await).await.unwrap();
    assert_eq!(left(&place).await, (0, 4));
    assert_eq!(stream.info().await.unwrap().state.consumer_count, 0);
}

#[tokio::test]
async fn what_was_applied_before_an_erasure_goes_within_a_day() {
    let mut place = Place::new().await;
    let names = place.bus.names.clone();
    let left = async |place: &Place| (left(place, &names.ingest(0)).await, left(place, &names.ingest(1)).await);
    fill(&place, 5, 10, 100).await;
    let now = place.clock.now();
    let erase = async |place: &Place, at: Timestamp| {
        let mut db = place.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        let erased = Erased { accepted: at, applied: at };
        erasures::record(&tx, place.project, &[Uuid::from_u128(5)], erased, false).await.unwrap();
        tx.commit().await.unwrap();
    };
    // All messages arrived too long after this erasure to contain anything of that user.
    erase(&place, now - SignedDuration::from_hours(2)).await;
    place.clock = Clock::manual(now + SignedDuration::from_hours(21));
    purge(place.app().await).await.unwrap();
    assert_eq!(left(&place).await, (3, 2));
    erase(&place, now).await;
    purge(place.app().await).await.unwrap();
    assert_eq!(left(&place).await, (3, 2));
    place.clock.advance(Duration::from_hours(2));
    purge(place.app().await).await.unwrap();
    assert_eq!(left(&place).await, (0, 2), "unapplied messages stay");
}

/// After a full disk, the stream may still hold messages that its consumer has acknowledged. The test simulates this
/// with a consumer that has read another channel up to that point.
#[tokio::test]
async fn acknowledged_messages_and_references_of_earlier_versions_are_removed_from_the_send_stream() {
    let place = Place::new().await;
    let (names, jetstream) = (place.bus.names.clone(), &place.bus.jetstream);
    let [acknowledged, other] = [Channel::Email, Channel::Sms].map(|channel| names.send(channel));
    let publisher = Publisher::new(place.bus.clone());
    let publish = async |subject: &str| publisher.publish(subject.to_owned(), Bytes::new()).await.unwrap();
    for subject in [&acknowledged, &other, &acknowledged, &other] {
        publish(subject).await;
    }
    let reading = |filter: &str| pull::Config {
        durable_name: Some(names.send_consumer(Channel::Email)),
        filter_subject: filter.to_owned(),
        ack_policy: AckPolicy::Explicit,
        ..pull::Config::default()
    };
    let reader: PullConsumer = jetstream.create_consumer_on_stream(reading(&other), names.send_stream()).await.unwrap();
    let mut read = reader.fetch().max_messages(2).messages().await.unwrap();
    while let Some(message) = read.next().await {
        message.unwrap().double_ack().await.unwrap();
    }
    let _: PullConsumer =
        jetstream.create_consumer_on_stream(reading(&acknowledged), names.send_stream()).await.unwrap();
    let behind = publish(&acknowledged).await;
    publish(&other).await;
    publish(&names.send_lane(Channel::Push, Lane::Campaign)).await;
    publish(&names.send_lane(Channel::Email, Lane::Automation)).await;

    purge_acknowledged(place.app().await).await.unwrap();
    let mut stream = jetstream.get_stream(names.send_stream()).await.unwrap();
    let state = &stream.info().await.unwrap().state;
    assert_eq!((state.messages, state.first_sequence), (2, behind), "{state:?}");
}
