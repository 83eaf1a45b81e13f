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

use crate::fixture::{Fixture, SOON};

#[tokio::test]
async fn partitions_are_created_and_stale_workers_removed() {
    let mut fixture = Fixture::new().await;
    let db = fixture.store.connection().await.unwrap();
    let newest = "SELECT max(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'message'::regclass \
                  AND inhrelid::regclass::text !~ 'before'";
    let name: String = db.query_one(newest, &[]).await.unwrap().get(0);
    db.batch_execute(&format!("DROP TABLE {name}")).await.unwrap();
    let sql = "INSERT INTO worker (id, kind, seen_until) VALUES (gen_random_uuid(), 'w', now() - interval '1 hour'), \
               (gen_random_uuid(), 'w', now() - interval '1 minute')";
    db.execute(sql, &[]).await.unwrap();
    drop(db);
    fixture.run().await;
    fixture.eventually_none("SELECT count(*) FROM worker WHERE seen_until < now() - interval '30 minutes'").await;
    fixture.eventually_none(&format!("SELECT 1 - count(*) FROM pg_class WHERE relname = '{name}'")).await;
    assert_eq!(fixture.count("SELECT count(*) FROM worker").await, 1);
    fixture.stop().await;
}

#[tokio::test]
async fn new_partitions_are_analyzed() {
    // Never analyzed, or only while it was empty.
    for before in ["", "ANALYZE message"] {
        let mut fixture = Fixture::new().await;
        let db = fixture.store.connection().await.unwrap();
        // Keeps autovacuum from analyzing the table first.
        let off = "DO $$ DECLARE part regclass; BEGIN FOR part IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'message'::regclass \
                   LOOP EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', part); END LOOP; END $$";
        db.batch_execute(off).await.unwrap();
        db.batch_execute(before).await.unwrap();
        let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, created_at, updated_at) \
                   SELECT $1, (lpad(to_hex($2 + n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, gen_random_uuid(), \
                   'EMAIL', 'automation', 'sent', now(), now() FROM generate_series(1, 6000::bigint) n";
        db.execute(sql, &[&fixture.project, &fixture.clock.now_ms()]).await.unwrap();
        drop(db);
        let unknown = "SELECT count(*) FROM pg_class WHERE relname LIKE 'message\\_%' AND relkind = 'r' AND relpages = 0 \
                       AND pg_relation_size(oid) >= 512 * 1024";
        assert_eq!(fixture.count(unknown).await, 1);
        fixture.run().await;
        fixture.eventually_none(unknown).await;
        fixture.stop().await;
    }
}

/// Publishes to two partitions in alternation, and sets how far the first is applied. Nothing of the second is.
async fn fill(fixture: &Fixture, messages: u64, bytes: usize, applied: u64) {
    let publisher = Publisher::new(fixture.bus.clone());
    for n in 0..messages {
        let subject = fixture.bus.names.ingest((n % 2) as u16);
        publisher.publish(subject, Bytes::from(vec![0; bytes])).await.unwrap();
    }
    publisher.publish(fixture.bus.names.ingest_canary(), Bytes::new()).await.unwrap();
    publisher.publish(fixture.bus.names.ingest_canary(), Bytes::new()).await.unwrap();
    let stream = topology::ensure(&fixture.bus).await.unwrap();
    let db = fixture.store.connection().await.unwrap();
    ingest_partitions::ensure(&db, stream.partitions, stream.created_ms).await.unwrap();
    let sql = "UPDATE ingest_partition SET applied_seq = $1 WHERE partition = 0";
    db.execute(sql, &[&(applied as i64)]).await.unwrap();
}

async fn left(fixture: &Fixture, filter: &str) -> usize {
    fixture.payloads(&fixture.bus.names.ingest_stream(), filter).await.len()
}

#[tokio::test]
async fn only_applied_messages_are_purged_and_only_above_the_threshold() {
    let fixture = Fixture::new().await;
    let names = fixture.bus.names.clone();
    // 20 messages of 20 kB: far below 70 % of a mebibyte.
    fill(&fixture, 20, 20_000, 11).await;
    purge(fixture.app().await).await.unwrap();
    assert_eq!((left(&fixture, &names.ingest(0)).await, left(&fixture, &names.ingest_canary()).await), (10, 1));
    // 40 messages exceed it. Of the first partition, sequences 1, 3, .. 11 are applied.
    fill(&fixture, 20, 20_000, 11).await;
    purge(fixture.app().await).await.unwrap();
    assert_eq!((left(&fixture, &names.ingest(0)).await, left(&fixture, &names.ingest(1)).await), (14, 20));
}

/// A broker that lost its newest messages stores the next ones with sequences that were already applied.
#[tokio::test]
async fn messages_with_reused_sequences_are_kept() {
    let fixture = Fixture::new().await;
    let names = fixture.bus.names.clone();
    fill(&fixture, 40, 20_000, 11).await;
    let stream = fixture.bus.jetstream.get_stream(names.ingest_stream()).await.unwrap();
    let stored = stream.get_raw_message(11).await.unwrap().time.unix_timestamp_nanos() as i64;
    for (stored, stay) in [(stored - 1, 20), (stored, 14)] {
        let db = fixture.store.connection().await.unwrap();
        db.execute("UPDATE ingest_partition SET applied_ns = $1 WHERE partition = 0", &[&stored]).await.unwrap();
        purge(fixture.app().await).await.unwrap();
        assert_eq!((left(&fixture, &names.ingest(0)).await, left(&fixture, &names.ingest(1)).await), (stay, 20));
    }
}

#[tokio::test]
async fn old_messages_are_purged_and_recent_ones_kept() {
    let mut fixture = Fixture::with([("INGEST_KEEP_HOURS", "1")]).await;
    let names = fixture.bus.names.clone();
    let left = async |fixture: &Fixture| (left(fixture, &names.ingest(0)).await, left(fixture, &names.ingest(1)).await);
    fill(&fixture, 5, 10, 100).await;
    let mut stream = fixture.bus.jetstream.get_stream(names.ingest_stream()).await.unwrap();
    let time = |message: async_nats::jetstream::message::StreamMessage| message.time.unix_timestamp_nanos() / 1_000_000;
    let before = time(stream.get_raw_message(7).await.unwrap());
    eventually_true("the next millisecond", SOON, async || i128::from(fixture.clock.now_ms()) > before + 1).await;
    fill(&fixture, 5, 10, 100).await;
    let after = time(stream.get_raw_message(8).await.unwrap());
    purge(fixture.app().await).await.unwrap();
    assert_eq!(left(&fixture).await, (6, 4));
    // An hour has passed since the first messages, but not since the rest; nothing of the second partition is applied.
    fixture.clock = Clock::manual(from_ms(after as i64 - 1 + 3_600_000));
    purge(fixture.app().await).await.unwrap();
    assert_eq!(left(&fixture).await, (3, 4));
    fixture.clock.advance(Duration::from_mins(1));
    purge(fixture.app().await).await.unwrap();
    assert_eq!(left(&fixture).await, (0, 4));
    assert_eq!(stream.info().await.unwrap().state.consumer_count, 0);
}

#[tokio::test]
async fn messages_from_before_an_erasure_are_purged_within_a_day() {
    let mut fixture = Fixture::new().await;
    let names = fixture.bus.names.clone();
    let left = async |fixture: &Fixture| (left(fixture, &names.ingest(0)).await, left(fixture, &names.ingest(1)).await);
    fill(&fixture, 5, 10, 100).await;
    let now = fixture.clock.now();
    let erase = async |fixture: &Fixture, at: Timestamp| {
        let mut db = fixture.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        let erased = Erased { accepted: at, applied: at };
        erasures::record(&tx, fixture.project, &[Uuid::from_u128(5)], erased, false).await.unwrap();
        tx.commit().await.unwrap();
    };
    // All messages arrived too long after this erasure to contain anything of that user.
    erase(&fixture, now - SignedDuration::from_hours(2)).await;
    fixture.clock = Clock::manual(now + SignedDuration::from_hours(21));
    purge(fixture.app().await).await.unwrap();
    assert_eq!(left(&fixture).await, (3, 2));
    erase(&fixture, now).await;
    purge(fixture.app().await).await.unwrap();
    assert_eq!(left(&fixture).await, (3, 2));
    fixture.clock.advance(Duration::from_hours(2));
    purge(fixture.app().await).await.unwrap();
    assert_eq!(left(&fixture).await, (0, 2), "unapplied messages stay");
}

/// After a full disk, the stream may still hold messages that its consumer has acknowledged. The test simulates this
/// with a consumer that has read another channel up to that point.
#[tokio::test]
async fn acknowledged_and_legacy_messages_are_purged_from_send_stream() {
    let fixture = Fixture::new().await;
    let (names, jetstream) = (fixture.bus.names.clone(), &fixture.bus.jetstream);
    let [acknowledged, other] = [Channel::Email, Channel::Sms].map(|channel| names.send(channel));
    let publisher = Publisher::new(fixture.bus.clone());
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

    purge_acknowledged(fixture.app().await).await.unwrap();
    let mut stream = jetstream.get_stream(names.send_stream()).await.unwrap();
    let state = &stream.info().await.unwrap().state;
    assert_eq!((state.messages, state.first_sequence), (2, behind), "{state:?}");
}
