//! Timers that end waits.

use std::collections::BTreeMap;

use kernel::ids::{self, ProjectId};
use testkit::PrivateNats;
use uuid::Uuid;
use wire::event::{Body, IngestBatch};

use crate::place::Place;

/// Returns how often each run's timer was published. All must be in the run's own partition.
async fn fired(place: &Place) -> BTreeMap<u128, usize> {
    let names = &place.bus.names;
    let mut runs = BTreeMap::new();
    for (subject, payload) in place.payloads(&names.ingest_stream(), &names.ingest_all()).await {
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
    let mut place = Place::new().await;
    let other = ProjectId(ids::fresh(place.clock.now_ms()));
    place.timers(place.project, 0..5_000, -1).await;
    place.timers(other, 10_000..10_100, -1).await;
    place.timers(place.project, 20_000..20_010, 3_600_000).await;
    place.run().await;
    place.run().await;
    place.eventually_none("SELECT count(*) FROM timer WHERE run_id < '00000000-0000-0000-0000-000000004e20'").await;
    place.stop().await;
    let runs = fired(&place).await;
    let expected: Vec<u128> = (0..5_000).chain(10_000..10_100).collect();
    assert_eq!(runs.keys().copied().collect::<Vec<_>>(), expected);
    // Each scheduler takes what the other has not: nothing was slow enough to be taken again.
    assert!(runs.values().all(|n| *n == 1));
    assert_eq!(place.count("SELECT count(*) FROM timer").await, 10);
}

#[tokio::test]
async fn a_timer_set_for_later_fires_then() {
    let mut place = Place::new().await;
    place.run().await;
    let due = place.clock.now_ms() + 700;
    place.timers(place.project, 0..1, 700).await;
    place.eventually_none("SELECT count(*) FROM timer").await;
    assert!(place.clock.now_ms() >= due);
    assert_eq!(fired(&place).await, BTreeMap::from([(0, 1)]));
    place.stop().await;
}

#[tokio::test]
async fn a_timer_taken_by_a_scheduler_that_died_fires_again() {
    use store_sending::timers::due;
    let place = Place::new().await;
    place.timers(place.project, 0..3, -1).await;
    let mut db = place.store.connection().await.unwrap();
    let now = place.clock.now();
    let soon = now.checked_add(std::time::Duration::from_millis(300)).unwrap();
    let taken = due::take(&mut db, place.project, now, soon, 10).await.unwrap();
    assert_eq!(taken.len(), 3);
    assert!(due::take(&mut db, place.project, now, soon, 10).await.unwrap().is_empty());
    // A wait that restarted since then is not the one that was published.
    place.timers(place.project, [2], 60_000).await;
    db.execute("UPDATE timer SET wait_seq = 2 WHERE run_id = $1", &[&Uuid::from_u128(2)]).await.unwrap();
    assert_eq!(due::delete(&db, place.project, &taken[2..], soon).await.unwrap(), 0);
    // Nor is a timer that was set again for the same wait.
    db.execute("UPDATE timer SET due_at = due_at + interval '1 ms' WHERE run_id = $1", &[&Uuid::nil()]).await.unwrap();
    assert_eq!(due::delete(&db, place.project, &taken[..1], soon).await.unwrap(), 0);
    db.execute("UPDATE timer SET due_at = due_at - interval '1 ms' WHERE run_id = $1", &[&Uuid::nil()]).await.unwrap();
    assert_eq!(due::delete(&db, place.project, &taken[..1], soon).await.unwrap(), 1);
    drop(db);
    let mut place = place;
    place.run().await;
    place.eventually_none("SELECT count(*) FROM timer WHERE wait_seq = 1").await;
    assert_eq!(fired(&place).await, BTreeMap::from([(1, 1)]));
    place.stop().await;
}

#[tokio::test]
async fn with_the_broker_away_timers_wait_and_fire_when_it_is_back() {
    let mut nats = PrivateNats::start().await;
    let mut place = Place::at(&nats.url(), "", None, &[("SCHEDULER_TICK_MS", "20")]).await;
    place.run().await;
    place.timers(place.project, 0..10, -1).await;
    place.eventually_none("SELECT count(*) FROM timer").await;
    nats.kill().await;
    place.timers(place.project, 10..20, -1).await;
    nats.start_again().await;
    place.eventually_none("SELECT count(*) FROM timer").await;
    assert_eq!(fired(&place).await.len(), 20);
    place.stop().await;
}

#[tokio::test]
async fn timers_that_a_dying_broker_never_acknowledged_fire_when_it_is_back() {
    let mut nats = PrivateNats::start().await;
    let mut place = Place::at(&nats.url(), "", None, &[("SCHEDULER_TICK_MS", "20")]).await;
    place.run().await;
    nats.suspend().await;
    place.timers(place.project, 0..10, -1).await;
    // Claimed, and published to a server that does not store them.
    place.eventually_none("SELECT count(*) FROM timer WHERE due_at <= now()").await;
    nats.kill().await;
    nats.start_again().await;
    let db = place.store.connection().await.unwrap();
    // Simulates the time after which they are claimed again.
    db.execute("UPDATE timer SET due_at = due_at - interval '1 minute'", &[]).await.unwrap();
    place.eventually_none("SELECT count(*) FROM timer").await;
    assert_eq!(fired(&place).await.into_keys().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    place.stop().await;
}
