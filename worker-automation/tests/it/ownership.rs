//! Ownership of partitions: workers share them, a dead worker is replaced, and a deposed one cannot commit.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bus::topology;
use database::ingest_partitions::{self, Advance};
use prost::Message;
use serde_json::json;
use uuid::Uuid;
use worker_automation::ingest::batch::Batch;
use worker_automation::ingest::item::Item;
use worker_automation::record::error::RecordError;
use worker_automation::record::transaction::{Mode, Recorder};

use crate::fixture::{Fixture, identify};

#[tokio::test]
async fn worker_takes_over_partitions_of_a_crashed_one_in_order() {
    let f = Fixture::start().await;
    let second = f.start_worker();
    f.eventually(
        "two workers own four partitions each",
        "SELECT count(*) FROM (SELECT owner FROM ingest_partition GROUP BY owner HAVING count(*) = 4) o",
        2,
    )
    .await;
    let update = |n: i64| identify(&f, Some("u1"), None, json!({"n": n, (format!("k{}", n % 7)): n}));
    for n in 0..500 {
        f.publish(vec![update(n)]).await;
    }
    // The worker dies without releasing its leases, so they must expire.
    let died = Instant::now();
    second.die();
    for n in 500..1_000 {
        f.publish(vec![update(n)]).await;
    }
    f.eventually(
        "one worker owns all partitions",
        "SELECT count(DISTINCT owner) FROM ingest_partition WHERE lease_until > clock_timestamp()",
        1,
    )
    .await;
    f.applied().await;
    assert!(died.elapsed() < Duration::from_secs(15), "{:?}", died.elapsed());
    assert_eq!(f.number("SELECT (properties->>'n')::bigint FROM users").await, 999);
    for k in 0..7 {
        let last = (0..1_000).rev().find(|n| n % 7 == k).unwrap();
        assert_eq!(f.number(&format!("SELECT (properties->>'k{k}')::bigint FROM users")).await, last);
    }
    f.stop().await;
}

/// After the clock is set back by nearly an hour, a lease of a minute looks like one of an hour.
#[tokio::test]
async fn leases_from_before_a_clock_reset_are_free() {
    let f = Fixture::without_worker().await;
    let db = f.store.connection().await.unwrap();
    let (dead, live) = (Uuid::from_u128(1), Uuid::from_u128(2));
    ingest_partitions::announce(&db, dead, "automation", 3_600_000).await.unwrap();
    let before = ingest_partitions::acquire(&db, dead, 8, 3_600_000).await.unwrap();
    assert_eq!(before.len(), 8);
    assert_eq!(ingest_partitions::orphaned(&db).await.unwrap().1.len(), 8);
    assert_eq!(ingest_partitions::announce(&db, live, "automation", 60_000).await.unwrap(), 1);
    let after = ingest_partitions::acquire(&db, live, 8, 60_000).await.unwrap();
    assert_eq!(after.len(), 8);
    assert!(before.iter().zip(&after).all(|(before, after)| after.epoch > before.epoch), "{before:?} {after:?}");
    assert!(ingest_partitions::orphaned(&db).await.unwrap().1.is_empty());
    // A lease of the maximum length is respected.
    let third = Uuid::from_u128(3);
    ingest_partitions::renew(&db, live, &[(after[0].partition, after[0].epoch)], 120_000).await.unwrap();
    assert!(ingest_partitions::acquire(&db, third, 8, 60_000).await.unwrap().is_empty());
}

#[tokio::test]
async fn commit_of_a_deposed_owner_fails_and_changes_nothing() {
    let f = Fixture::without_worker().await;
    let db = f.store.connection().await.unwrap();
    let (old, new) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let lease = ingest_partitions::acquire(&db, old, 1, 60_000).await.unwrap()[0];
    let recorder = Recorder::new(f.store.clone(), f.clock.clone(), f.bus.names.clone(), 1_000);
    let batch = |epoch| Batch {
        items: vec![
            Item::decode(identify(&f, Some("u1"), None, json!({"a": 1})).encode_to_vec().into(), lease.partition, 9)
                .unwrap(),
        ],
        steps: vec![Advance { partition: lease.partition, epoch, from: 0, to: 9, to_ns: 0 }],
    };
    f.execute("UPDATE ingest_partition SET lease_until = clock_timestamp() - interval '1 second'").await;
    let newer = ingest_partitions::acquire(&db, new, 1, 60_000).await.unwrap()[0];
    assert!(newer.partition == lease.partition && newer.epoch > lease.epoch);
    let outcome = recorder.record(&batch(lease.epoch), &HashSet::new(), Mode::Commit).await;
    assert!(matches!(outcome, Err(RecordError::Deposed(p)) if p == [lease.partition]));
    assert_eq!(f.number("SELECT count(*) FROM users").await, 0);
    recorder.record(&batch(newer.epoch), &HashSet::new(), Mode::Commit).await.unwrap();
    // The same position is rejected the second time, too.
    let again = recorder.record(&batch(newer.epoch), &HashSet::new(), Mode::Commit).await;
    assert!(matches!(again, Err(RecordError::Deposed(_))));
    assert!(ingest_partitions::renew(&db, old, &[(lease.partition, lease.epoch)], 60_000).await.unwrap().is_empty());
    f.stop().await;
}

#[tokio::test]
async fn positions_of_an_earlier_stream_are_reset() {
    let f = Fixture::without_worker().await;
    let db = f.store.connection().await.unwrap();
    f.execute("UPDATE ingest_partition SET applied_seq = 77").await;
    ingest_partitions::ensure(&db, 8, f.stream_created_ms).await.unwrap();
    assert_eq!(f.number("SELECT min(applied_seq) FROM ingest_partition").await, 77);
    ingest_partitions::ensure(&db, 8, f.stream_created_ms + 1).await.unwrap();
    assert_eq!(f.number("SELECT max(applied_seq) FROM ingest_partition").await, 0);
    f.stop().await;
}

#[tokio::test]
async fn lost_commit_response_does_not_stop_the_partition() {
    let f = Fixture::start().await;
    f.publish_to(3, vec![]).await;
    f.applied().await;
    // Simulates a recorded message whose commit response the worker did not get.
    f.execute("UPDATE ingest_partition SET applied_seq = applied_seq + 1 WHERE partition = 3").await;
    f.publish_to(3, vec![identify(&f, Some("seen"), None, json!({}))]).await;
    f.publish_to(3, vec![identify(&f, Some("after"), None, json!({}))]).await;
    f.applied().await;
    f.publish_to(3, vec![identify(&f, Some("later"), None, json!({}))]).await;
    f.applied().await;
    let names = "SELECT string_agg(external_id, ' ' ORDER BY external_id) FROM users";
    assert_eq!(f.text(names).await.as_deref(), Some("after later"));
    f.stop().await;
}

#[tokio::test]
async fn running_worker_reads_a_recreated_stream_from_its_start() {
    let f = Fixture::start().await;
    for user in ["one", "two"] {
        f.publish_to(3, vec![identify(&f, Some(user), None, json!({}))]).await;
    }
    f.applied().await;
    f.bus.jetstream.delete_stream(f.bus.names.ingest_stream()).await.unwrap();
    topology::ensure(&f.bus).await.unwrap();
    // These messages reuse sequence numbers of the deleted stream.
    for user in ["three", "four", "five"] {
        f.publish_to(3, vec![identify(&f, Some(user), None, json!({}))]).await;
    }
    f.eventually("all users are recorded", "SELECT count(*) FROM users", 5).await;
    f.eventually("the position in the new stream", "SELECT applied_seq FROM ingest_partition WHERE partition = 3", 3)
        .await;
    f.stop().await;
}

#[tokio::test]
async fn restored_database_resumes_at_its_position() {
    let f = Fixture::without_worker().await;
    let first = f.start_worker();
    f.eventually("all partitions owned", "SELECT count(*) FROM ingest_partition WHERE owner IS NOT NULL", 8).await;
    f.publish_to(2, vec![identify(&f, Some("before"), None, json!({}))]).await;
    f.applied().await;
    first.die();
    // The backup has an older epoch and position, and fewer rows.
    f.execute(
        "UPDATE ingest_partition SET epoch = 1, applied_seq = 0, owner = NULL, lease_until = NULL; DELETE FROM users",
    )
    .await;
    let second = f.start_worker();
    f.publish_to(2, vec![identify(&f, Some("after"), None, json!({}))]).await;
    f.eventually("both users are recorded", "SELECT count(*) FROM users", 2).await;
    second.stop_now().await;
    f.stop().await;
}

#[tokio::test]
async fn starting_worker_waits_for_the_partitions() {
    let f = Fixture::without_worker().await;
    f.execute("ALTER TABLE ingest_partition RENAME TO away").await;
    let since = f.number("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").await;
    let worker = f.start_worker();
    let queried = format!(
        "SELECT least(1, count(*)) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle' \
         AND query LIKE 'INSERT INTO ingest_partition %' AND query_start > to_timestamp({since} / 1000.0)"
    );
    f.eventually("the worker has queried the partitions", &queried, 1).await;
    f.execute("ALTER TABLE away RENAME TO ingest_partition").await;
    f.eventually("the worker owns all partitions", "SELECT count(*) FROM ingest_partition WHERE owner IS NOT NULL", 8)
        .await;
    worker.stop_now().await;
}
