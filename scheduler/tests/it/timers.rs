//! Timers that end waits.

use std::collections::BTreeMap;

use kernel::ids::{self, ProjectId};
use testkit::PrivateNats;
use uuid::Uuid;
use wire::event::{Body, IngestBatch};

use crate::fixture::Fixture;

/// Returns how often each run's timer was published. All must be in the run's own partition.
async fn fired(fixture: &Fixture) -> BTreeMap<u128, usize> {
    let names = &fixture.bus.names;
    let mut runs = BTreeMap::new();
    for (subject, payload) in fixture.payloads(&names.ingest_stream(), &names.ingest_all()).await {
        for item in IngestBatch::decode_checked(payload).unwrap().items {
            let Some(Body::Timer(timer)) = &item.body else { panic!("{item:?}") };
            let run = Uuid::from_slice(&timer.run_id).unwrap().as_u128();
            assert_eq!(subject, names.ingest((run % 8) as u16));
            assert_eq!((timer.wait_seq, item.user_id.is_none()), (1, true));
            *runs.entry(run).or_default() += 1;
        }
    }
    runs
}

#[tokio::test]
async fn two_schedulers_fire_every_timer_once() {
    let mut fixture = Fixture::new().await;
    let other = ProjectId(ids::fresh(fixture.clock.now_ms()));
    fixture.timers(fixture.project, 0..5_000, -1).await;
    fixture.timers(other, 10_000..10_100, -1).await;
    fixture.timers(fixture.project, 20_000..20_010, 3_600_000).await;
    fixture.run().await;
    fixture.run().await;
    fixture.eventually_none("SELECT count(*) FROM timer WHERE run_id < '00000000-0000-0000-0000-000000004e20'").await;
    fixture.stop().await;
    let runs = fired(&fixture).await;
    let expected: Vec<u128> = (0..5_000).chain(10_000..10_100).collect();
    assert_eq!(runs.keys().copied().collect::<Vec<_>>(), expected);
    // Each scheduler takes what the other has not: nothing was slow enough to be taken again.
    assert!(runs.values().all(|n| *n == 1));
    assert_eq!(fixture.count("SELECT count(*) FROM timer").await, 10);
}

#[tokio::test]
async fn a_timer_set_for_later_fires_then() {
    let mut fixture = Fixture::new().await;
    fixture.run().await;
    let due = fixture.clock.now_ms() + 700;
    fixture.timers(fixture.project, 0..1, 700).await;
    fixture.eventually_none("SELECT count(*) FROM timer").await;
    assert!(fixture.clock.now_ms() >= due);
    assert_eq!(fired(&fixture).await, BTreeMap::from([(0, 1)]));
    fixture.stop().await;
}

#[tokio::test]
async fn timer_claimed_by_a_crashed_scheduler_fires_again() {
    use store_sending::timers::due;
    let fixture = Fixture::new().await;
    fixture.timers(fixture.project, 0..3, -1).await;
    let mut db = fixture.store.connection().await.unwrap();
    let now = fixture.clock.now();
    let soon = now.checked_add(std::time::Duration::from_millis(300)).unwrap();
    let taken = due::claim(&mut db, fixture.project, now, soon, 10).await.unwrap();
    assert_eq!(taken.len(), 3);
    assert!(due::claim(&mut db, fixture.project, now, soon, 10).await.unwrap().is_empty());
    // A wait that restarted since then is not the one that was published.
    fixture.timers(fixture.project, [2], 60_000).await;
    db.execute("UPDATE timer SET wait_seq = 2 WHERE run_id = $1", &[&Uuid::from_u128(2)]).await.unwrap();
    assert_eq!(due::delete(&db, fixture.project, &taken[2..], soon).await.unwrap(), 0);
    // Nor is a timer that was set again for the same wait.
    db.execute("UPDATE timer SET due_at = due_at + interval '1 ms' WHERE run_id = $1", &[&Uuid::nil()]).await.unwrap();
    assert_eq!(due::delete(&db, fixture.project, &taken[..1], soon).await.unwrap(), 0);
    db.execute("UPDATE timer SET due_at = due_at - interval '1 ms' WHERE run_id = $1", &[&Uuid::nil()]).await.unwrap();
    assert_eq!(due::delete(&db, fixture.project, &taken[..1], soon).await.unwrap(), 1);
    drop(db);
    let mut fixture = fixture;
    fixture.run().await;
    fixture.eventually_none("SELECT count(*) FROM timer WHERE wait_seq = 1").await;
    assert_eq!(fired(&fixture).await, BTreeMap::from([(1, 1)]));
    fixture.stop().await;
}

#[tokio::test]
async fn timers_wait_for_an_unavailable_broker() {
    let mut nats = PrivateNats::start().await;
    let mut fixture = Fixture::at(&nats.url(), "", None, &[("SCHEDULER_TICK_MS", "20")]).await;
    fixture.run().await;
    fixture.timers(fixture.project, 0..10, -1).await;
    fixture.eventually_none("SELECT count(*) FROM timer").await;
    nats.kill().await;
    fixture.timers(fixture.project, 10..20, -1).await;
    nats.start_again().await;
    fixture.eventually_none("SELECT count(*) FROM timer").await;
    assert_eq!(fired(&fixture).await.len(), 20);
    fixture.stop().await;
}

#[tokio::test]
async fn unacknowledged_timers_fire_after_broker_restart() {
    let mut nats = PrivateNats::start().await;
    let mut fixture = Fixture::at(&nats.url(), "", None, &[("SCHEDULER_TICK_MS", "20")]).await;
    fixture.run().await;
    nats.suspend().await;
    fixture.timers(fixture.project, 0..10, -1).await;
    // Claimed, and published to a server that does not store them.
    fixture.eventually_none("SELECT count(*) FROM timer WHERE due_at <= now()").await;
    nats.kill().await;
    nats.start_again().await;
    let db = fixture.store.connection().await.unwrap();
    // Simulates the time after which they are claimed again.
    db.execute("UPDATE timer SET due_at = due_at - interval '1 minute'", &[]).await.unwrap();
    fixture.eventually_none("SELECT count(*) FROM timer").await;
    assert_eq!(fired(&fixture).await.into_keys().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    fixture.stop().await;
}
