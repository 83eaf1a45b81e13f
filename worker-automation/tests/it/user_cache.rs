//! A worker's user cache never affects results, even if other workers make changes.

use std::collections::HashSet;
use std::time::Duration;

use database::ingest_partitions::{self, Advance};
use kernel::clock::Clock;
use kernel::ids::{ProjectId, UserKey};
use prost::Message;
use serde_json::json;
use store_profiles::events::counters;
use store_profiles::users::{read, record as users, removals};
use uuid::Uuid;
use wire::event::IngestItem;
use worker_automation::ingest::batch::Batch;
use worker_automation::ingest::item::Item;
use worker_automation::record::error::RecordError;
use worker_automation::record::transaction::{Mode, Recorded, Recorder};

use crate::erasure::erase;
use crate::fixture::{Fixture, anonymous_track, identify, track};

/// A worker that records batches on demand, with its own partition and cache.
struct ManualWorker {
    recorder: Recorder,
    partition: i16,
    epoch: i64,
    at: i64,
}

impl ManualWorker {
    async fn new(f: &Fixture, clock: &Clock) -> Self {
        let db = f.store.connection().await.unwrap();
        let worker = Uuid::from_bytes(rand::random());
        let lease = ingest_partitions::acquire(&db, worker, 1, 60_000).await.unwrap()[0];
        let recorder = Recorder::new(f.store.clone(), clock.clone(), f.bus.names.clone(), 1_000);
        Self { recorder, partition: lease.partition, epoch: lease.epoch, at: lease.applied_seq }
    }

    async fn try_record(&mut self, items: Vec<IngestItem>) -> Result<Recorded, RecordError> {
        let to = self.at + 1;
        let items = items
            .into_iter()
            .map(|wire| Item::decode(wire.encode_to_vec().into(), self.partition, to).unwrap())
            .collect();
        let steps = vec![Advance { partition: self.partition, epoch: self.epoch, from: self.at, to, to_ns: 0 }];
        let recorded = self.recorder.record(&Batch { items, steps }, &HashSet::new(), Mode::Commit).await?;
        self.at = to;
        Ok(recorded)
    }

    async fn record(&mut self, items: Vec<IngestItem>) -> Recorded {
        self.try_record(items).await.unwrap()
    }
}

/// Panics if `work` waits, although it must not.
async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), work).await.expect("must not wait")
}

fn clock(f: &Fixture) -> Clock {
    Clock::manual(f.clock.now())
}

#[tokio::test]
async fn cached_user_needs_no_query_for_a_minute() {
    let f = Fixture::without_worker().await;
    let clock = clock(&f);
    let mut worker = ManualWorker::new(&f, &clock).await;
    let row = "SELECT xmin::text || ' ' || ctid::text FROM users";
    worker.record(vec![track(&f, "u1", "viewed", json!({}))]).await;
    let made = f.text(row).await;
    // A query of the row would wait for this lock.
    f.execute("BEGIN; LOCK TABLE users IN ACCESS EXCLUSIVE MODE").await;
    worker.record(vec![track(&f, "u1", "viewed", json!({}))]).await;
    f.execute("COMMIT").await;
    assert_eq!(f.text(row).await, made);
    clock.advance(Duration::from_secs(61));
    let mut later = track(&f, "u1", "viewed", json!({}));
    later.received_ms += 61_000;
    let seen = later.received_ms;
    worker.record(vec![later]).await;
    assert_eq!(f.number("SELECT (extract(epoch FROM last_seen_at) * 1000)::bigint FROM users").await, seen);
    assert_eq!(f.number("SELECT sum(count)::bigint FROM user_count").await, 1);
    f.stop().await;
}

#[tokio::test]
async fn concurrent_merge_is_followed_where_it_matters() {
    let f = Fixture::without_worker().await;
    let clock = clock(&f);
    let (mut stale, mut other) = (ManualWorker::new(&f, &clock).await, ManualWorker::new(&f, &clock).await);
    let steps = [json!({"type": "WAIT", "delay": 3600})];
    f.automation("signed_up", "always", &steps).await;
    stale.record(vec![anonymous_track(&f, "a1", "viewed")]).await;
    other.record(vec![identify(&f, Some("u1"), Some("a1"), json!({"plan": "pro"}))]).await;

    let u1 = UserKey::External("u1").internal_id(f.project);
    stale.record(vec![anonymous_track(&f, "a1", "viewed")]).await;
    stale.record(vec![anonymous_track(&f, "a1", "signed_up")]).await;
    stale.record(vec![identify(&f, None, Some("a1"), json!({"late": 1}))]).await;
    let db = f.store.connection().await.unwrap();
    let all = read::all_ids(&db, f.project, u1).await.unwrap();
    let ids = all.iter().map(|id| format!("'{id}'")).collect::<Vec<_>>().join(", ");
    assert_eq!(f.number(&format!("SELECT count(*) FROM events WHERE user_id IN ({ids})")).await, 3);
    assert_eq!(f.number(&format!("SELECT count(*) FROM run WHERE user_id = '{u1}'")).await, 1);
    let late = format!("SELECT count(*) FROM users WHERE id = '{u1}' AND properties ? 'late' AND properties ? 'plan'");
    assert_eq!(f.number(&late).await, 1);
    // Triggering an automation has read the merge into the cache.
    stale.record(vec![anonymous_track(&f, "a1", "viewed_later")]).await;
    let later = format!("SELECT count(*) FROM events WHERE user_id = '{u1}' AND name = 'viewed_later'");
    assert_eq!(f.number(&later).await, 1);
    assert_eq!(f.number("SELECT sum(count)::bigint FROM user_count").await, 1);
    f.stop().await;
}

#[tokio::test]
async fn merge_by_another_worker_is_detected_within_a_minute() {
    let f = Fixture::without_worker().await;
    let clock = clock(&f);
    let (mut stale, mut other) = (ManualWorker::new(&f, &clock).await, ManualWorker::new(&f, &clock).await);
    stale.record(vec![anonymous_track(&f, "a1", "viewed")]).await;
    other.record(vec![identify(&f, Some("u1"), Some("a1"), json!({}))]).await;
    clock.advance(Duration::from_secs(61));
    stale.record(vec![anonymous_track(&f, "a1", "viewed_later")]).await;
    let u1 = UserKey::External("u1").internal_id(f.project);
    let later = format!("SELECT count(*) FROM events WHERE user_id = '{u1}' AND name = 'viewed_later'");
    assert_eq!(f.number(&later).await, 1);
    f.stop().await;
}

#[tokio::test]
async fn removed_user_is_recreated_by_the_next_item() {
    let f = Fixture::without_worker().await;
    let clock = clock(&f);
    let mut worker = ManualWorker::new(&f, &clock).await;
    let a1 = anonymous_track(&f, "a1", "viewed");
    worker.record(vec![identify(&f, Some("u1"), Some("a1"), json!({"plan": "pro"})), a1]).await;

    let erased = [UserKey::External("u1"), UserKey::Anonymous("a1")].map(|key| (f.project, key.internal_id(f.project)));
    let mut eraser = f.store.connection().await.unwrap();
    removals::announce(&mut eraser, &erased).await.unwrap();
    let tx = eraser.transaction().await.unwrap();
    removals::lock(&tx, &erased, &[]).await.unwrap();
    tx.batch_execute("DELETE FROM users; DELETE FROM events").await.unwrap();
    removals::finish(&tx, &erased).await.unwrap();
    tx.commit().await.unwrap();

    worker.record(vec![anonymous_track(&f, "a1", "viewed"), track(&f, "u1", "viewed", json!({}))]).await;
    assert_eq!(f.number("SELECT count(*) FROM users WHERE merged_into IS NULL").await, 2);
    assert_eq!(f.number("SELECT count(*) FROM events e JOIN users u ON u.id = e.user_id").await, 2);
    f.stop().await;
}

#[tokio::test]
async fn recording_waits_for_the_erasure_of_the_user_it_names() {
    let f = Fixture::without_worker().await;
    let clock = clock(&f);
    let mut worker = ManualWorker::new(&f, &clock).await;
    worker.record(vec![track(&f, "u1", "viewed", json!({}))]).await;
    let erased = [(f.project, UserKey::External("u1").internal_id(f.project))];
    let mut eraser = f.store.connection().await.unwrap();
    removals::announce(&mut eraser, &erased).await.unwrap();
    let tx = eraser.transaction().await.unwrap();
    removals::lock(&tx, &erased, &[]).await.unwrap();
    let event = track(&f, "u1", "viewed", json!({}));
    let recording = tokio::spawn(async move { worker.record(vec![event]).await });
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    f.eventually("recording waits", waiting, 1).await;
    tx.batch_execute("DELETE FROM users; DELETE FROM events").await.unwrap();
    removals::finish(&tx, &erased).await.unwrap();
    tx.commit().await.unwrap();
    recording.await.unwrap();
    assert_eq!(f.number("SELECT count(*) FROM events e JOIN users u ON u.id = e.user_id").await, 1);
    f.stop().await;
}

#[tokio::test]
async fn an_erasure_leaves_all_other_users_in_the_cache() {
    let f = Fixture::without_worker().await;
    let clock = clock(&f);
    let (mut worker, mut other) = (ManualWorker::new(&f, &clock).await, ManualWorker::new(&f, &clock).await);
    let event = |user: &str| track(&f, user, "viewed", json!({}));
    worker.record(vec![event("u1"), event("u2")]).await;
    other.record(vec![erase(&f, "u2")]).await;
    // The erased user is looked up again, and the cache is as new as the erasure.
    worker.record(vec![event("u2")]).await;
    assert_eq!(f.number("SELECT count(*) FROM events e JOIN users u ON u.id = e.user_id").await, 2);
    // A lookup of the other user would wait for this lock.
    f.execute("BEGIN; LOCK TABLE users IN ACCESS EXCLUSIVE MODE").await;
    within(worker.record(vec![event("u1")])).await;
    f.execute("COMMIT").await;
    f.stop().await;
}

#[tokio::test]
async fn erasure_in_progress_delays_no_other_user() {
    let f = Fixture::without_worker().await;
    let clock = clock(&f);
    let (mut worker, mut other) = (ManualWorker::new(&f, &clock).await, ManualWorker::new(&f, &clock).await);
    let event = |user: &str| track(&f, user, "viewed", json!({}));
    worker.record(vec![event("u1"), event("u2")]).await;
    f.execute("BEGIN; SELECT FROM users WHERE external_id = 'u2' FOR UPDATE").await;
    let erasure = erase(&f, "u2");
    let erasing = tokio::spawn(async move { other.record(vec![erasure]).await });
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";
    f.eventually("the erasure waits for the row", waiting, 1).await;
    within(worker.record(vec![event("u1"), event("u3")])).await;
    f.execute("COMMIT").await;
    erasing.await.unwrap();
    assert_eq!(f.text("SELECT string_agg(external_id, ' ' ORDER BY external_id) FROM users").await.unwrap(), "u1 u3");
    f.stop().await;
}

#[tokio::test]
async fn erasure_waits_for_earlier_transactions() {
    let f = Fixture::without_worker().await;
    let clock = clock(&f);
    let (mut worker, mut other) = (ManualWorker::new(&f, &clock).await, ManualWorker::new(&f, &clock).await);
    let event = |user: &str| track(&f, user, "viewed", json!({}));
    worker.record(vec![event("u1"), event("u2")]).await;
    let mut db = f.store.connection().await.unwrap();
    let recording = db.transaction().await.unwrap();
    recording.batch_execute("SET LOCAL idle_in_transaction_session_timeout = 0").await.unwrap();
    removals::generation(&recording).await.unwrap();
    let erasure = erase(&f, "u2");
    let erasing = tokio::spawn(async move { other.record(vec![erasure]).await });
    f.eventually("the erasure is announced", "SELECT count(*) FROM erasure WHERE is_pending", 1).await;
    // The recording transaction has cached the user, and does not know of the erasure.
    let late = "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
                SELECT project_id, (left(id::text, 24) || 'aaaaaaaaaaaa')::uuid, 'late', user_id, '{}', now(), now() - interval '1 hour' \
                FROM events WHERE user_id = $1";
    let u2 = UserKey::External("u2").internal_id(f.project);
    assert_eq!(recording.execute(late, &[&u2]).await.unwrap(), 1);
    within(worker.record(vec![event("u1")])).await;
    assert_eq!(f.number("SELECT count(*) FROM erasure WHERE is_pending").await, 1);
    recording.commit().await.unwrap();
    erasing.await.unwrap();
    assert_eq!(f.number("SELECT count(*) FROM events WHERE name = 'late'").await, 0);
    assert_eq!(f.number("SELECT count(*) FROM erasure WHERE is_pending").await, 0);
    f.stop().await;
}

#[tokio::test]
async fn an_erasure_includes_an_id_that_is_merged_after_its_announcement() {
    let f = Fixture::without_worker().await;
    let clock = clock(&f);
    let mut worker = ManualWorker::new(&f, &clock).await;
    worker.record(vec![anonymous_track(&f, "a1", "viewed")]).await;
    worker.record(vec![identify(&f, Some("u1"), Some("a1"), json!({})), erase(&f, "u1")]).await;
    assert_eq!(f.number("SELECT count(*) FROM users").await, 0);
    assert_eq!(f.number("SELECT count(*) FROM events").await, 0);
    assert_eq!(f.number("SELECT count(*) FROM erasure WHERE NOT is_pending").await, 2);
    f.stop().await;
}

#[tokio::test]
async fn worker_with_a_reset_position_clears_its_cache() {
    let f = Fixture::without_worker().await;
    let clock = clock(&f);
    let mut worker = ManualWorker::new(&f, &clock).await;
    worker.record(vec![track(&f, "u1", "viewed", json!({}))]).await;
    // Simulates a restored backup that the worker has not noticed.
    f.execute("UPDATE ingest_partition SET applied_seq = 0; DELETE FROM users; DELETE FROM events").await;
    let outcome = worker.try_record(vec![track(&f, "u1", "viewed", json!({}))]).await;
    assert!(matches!(outcome, Err(RecordError::Deposed(_))));
    worker.at = 0;
    worker.record(vec![track(&f, "u1", "viewed", json!({}))]).await;
    assert_eq!(f.number("SELECT count(*) FROM users").await, 1);
    f.stop().await;
}

#[tokio::test]
async fn totals_are_exact_before_and_after_folding() {
    let f = Fixture::without_worker().await;
    let clock = clock(&f);
    let (mut one, mut two) = (ManualWorker::new(&f, &clock).await, ManualWorker::new(&f, &clock).await);
    for n in 0..5 {
        let events = |user: &'static str| {
            let mut events: Vec<IngestItem> = (0..=n).map(|_| track(&f, user, "bought", json!({}))).collect();
            events.push(track(&f, user, "seen", json!({})));
            events
        };
        one.record(events("u1")).await;
        two.record(events("u2")).await;
    }
    let count = |name| format!("SELECT coalesce(sum(count), 0)::bigint FROM event_count WHERE name = '{name}'");
    let expect = async || {
        assert_eq!((f.number(&count("bought")).await, f.number(&count("seen")).await), (30, 10));
    };
    expect().await;
    let db = f.store.connection().await.unwrap();
    assert_eq!(counters::projects_to_fold(&db).await.unwrap(), [f.project]);
    assert_eq!(counters::fold(&db, ProjectId(Uuid::nil())).await.unwrap(), 0);
    assert_eq!(counters::fold(&db, f.project).await.unwrap(), 10);
    expect().await;
    one.record(vec![track(&f, "u1", "seen", json!({}))]).await;
    assert_eq!(f.number(&count("seen")).await, 11);
    assert_eq!(counters::fold(&db, f.project).await.unwrap(), 1);
    assert_eq!(f.number(&count("seen")).await, 11);
    assert_eq!(f.number("SELECT count(*) FROM event_count_new").await, 0);
    f.stop().await;
}

#[tokio::test]
async fn users_are_looked_up_by_index_in_large_tables() {
    let f = Fixture::without_worker().await;
    f.execute(&format!(
        "INSERT INTO users (project_id, id, external_id, created_at, last_seen_at, updated_at) \
         SELECT '{}', md5(n::text)::uuid, n, now(), '2020-01-01', now() FROM generate_series(1, 20000) n; ANALYZE users",
        f.project
    ))
    .await;
    let mut db = f.store.connection().await.unwrap();
    let rows = db.query("SELECT id FROM users ORDER BY id LIMIT 5000", &[]).await.unwrap();
    let keys: Vec<users::ProjectUserId> = rows.iter().map(|row| (f.project, row.get(0))).collect();
    let seen: Vec<_> = keys.iter().map(|key| (*key, f.clock.now())).collect();
    // PostgreSQL may replan a prepared statement several times before it keeps a plan.
    for _ in 0..7 {
        let tx = ingest_partitions::begin(&mut db).await.unwrap();
        let sql = "SELECT coalesce(sum(seq_scan), 0)::bigint FROM pg_stat_xact_user_tables WHERE relname = 'users'";
        // The counter may include earlier statements of the session.
        let before: i64 = tx.query_one(sql, &[]).await.unwrap().get(0);
        assert_eq!(users::find(&tx, &keys).await.unwrap().len(), 5_000);
        assert_eq!(users::lock(&tx, &keys).await.unwrap().len(), 5_000);
        users::touch(&tx, &seen).await.unwrap();
        assert_eq!(tx.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), before);
        tx.rollback().await.unwrap();
    }
    f.stop().await;
}

#[tokio::test]
async fn duplicate_event_is_detected_with_and_without_the_cache() {
    let f = Fixture::without_worker().await;
    let clock = clock(&f);
    let (mut one, mut two) = (ManualWorker::new(&f, &clock).await, ManualWorker::new(&f, &clock).await);
    let [first, second, third, fourth] = ["a", "b", "c", "d"].map(|name| track(&f, "u1", name, json!({"name": name})));
    let counted = |recorded: Recorded| (recorded.events, recorded.repeats);
    assert_eq!(counted(one.record(vec![first.clone(), second.clone()]).await), (2, 0));
    // The worker that recorded the event remembers it.
    assert_eq!(counted(one.record(vec![first.clone(), third.clone()]).await), (1, 1));
    // The other worker does not: it hits the unique key, and still records the other events of its batch.
    assert_eq!(counted(two.record(vec![second.clone(), fourth.clone()]).await), (1, 1));
    // While trust in the cache is suspended, all repeats are found in the database.
    assert_eq!(counted(two.record(vec![first, second, third, fourth]).await), (0, 4));
    assert_eq!(f.number("SELECT count(*) FROM events").await, 4);
    assert_eq!(f.number("SELECT count(*) FROM events WHERE properties->>'name' = name").await, 4);
    assert_eq!(f.number("SELECT sum(count)::bigint FROM event_count").await, 4);
    f.stop().await;
}
