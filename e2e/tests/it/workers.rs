//! Two recording workers share the partitions. Neither a kill nor a pause of one affects order or counts.

use std::time::{Duration, Instant};

use e2e::{Api, Options, System, inspect};
use serde_json::json;
use testkit::eventually;
use tokio_postgres::Client;

use crate::shop::event_id;

const USERS: usize = 6;
const UPDATES: usize = 1_000;
const BATCH: usize = 20;
/// Time limit from a worker's death until its partitions are read again and everything is applied.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(15);

/// Sends `UPDATES` numbered updates of one user in order, each with an event. Each removes the property that its
/// predecessor set, so an update applied out of order or twice leaves a permanent trace.
async fn updates(api: &Api, user: usize, pause: Duration) {
    for first in (1..=UPDATES).step_by(BATCH) {
        let items: Vec<_> = (first..first + BATCH)
            .flat_map(|n| {
                let user = format!("u{user}");
                [
                    json!({ "type": "identify", "user_id": user,
                            "properties": { "n": n, format!("t{n}"): true, format!("t{}", n - 1): null } }),
                    json!({ "type": "track", "event": "counted", "user_id": user, "id": event_id(), "properties": { "n": n } }),
                ]
            })
            .collect();
        api.track("/events/batch", &json!({ "batch": items })).await.expect(202);
        tokio::time::sleep(pause).await;
    }
}

/// Waits until `count` workers own all eight partitions.
async fn owners(db: &Client, count: i64, within: Duration) {
    let sql = "SELECT count(DISTINCT owner), count(owner) FROM ingest_partition WHERE lease_until > now()";
    let probe = async || {
        let row = db.query_one(sql, &[]).await.expect("the partitions");
        let found: (i64, i64) = (row.get(0), row.get(1));
        if found == (count, 8) { Ok(()) } else { Err(found) }
    };
    eventually(within, probe).await;
}

/// Checks that every user's last update won, and that every event was counted once.
async fn all_applied(system: &System, within: Duration) {
    let path = "/events?event=counted&limit=1";
    let all = USERS * UPDATES;
    system.api.until(path, within, |page| page["pagination"]["total"] == all).await;
    for user in 0..USERS {
        let user = system.api.get(&format!("/users/u{user}")).await.expect(200);
        assert_eq!(user["properties"], json!({ "n": UPDATES, format!("t{UPDATES}"): true }), "{user}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_worker_is_replaced_in_time_and_order_is_kept() {
    // Uses the default leases.
    let mut system = System::start().await;
    let db = inspect::database(&system).await;
    let mut second = system.new_program("worker-automation", "second");
    second.start().await;
    owners(&db, 2, Duration::from_secs(20)).await;

    let api = system.api.clone();
    let sending = futures_util::future::join_all((0..USERS).map(|user| updates(&api, user, Duration::from_millis(30))));
    let killing = async {
        system
            .api
            .until("/events?event=counted&limit=1", Duration::from_secs(10), |p| p["pagination"]["total"] != 0)
            .await;
        system.automation.kill().await;
        Instant::now()
    };
    let (_, killed) = tokio::join!(sending, killing);
    all_applied(&system, TAKEOVER_TIMEOUT).await;
    println!("all applied {:?} after the kill", killed.elapsed());
    assert!(killed.elapsed() < TAKEOVER_TIMEOUT, "{:?} after the kill", killed.elapsed());
    owners(&db, 1, Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_paused_beyond_its_lease_changes_nothing() {
    let system = System::start_with(Options::default().env("PARTITION_LEASE_MS", 500)).await;
    let db = inspect::database(&system).await;
    let mut second = system.new_program("worker-automation", "second");
    second.start().await;
    owners(&db, 2, Duration::from_secs(10)).await;

    let api = system.api.clone();
    let sending =
        futures_util::future::join_all((0..USERS).map(|user| updates(&api, user, Duration::from_millis(160))));
    let pausing = async {
        for paused in [&system.automation, &second].repeat(4) {
            // The worker stops at an arbitrary point. When it resumes, the other worker owns its partitions.
            paused.suspend().await;
            owners(&db, 1, TAKEOVER_TIMEOUT).await;
            paused.resume().await;
            owners(&db, 2, Duration::from_secs(10)).await;
        }
    };
    let (_, paused) = tokio::join!(sending, async {
        pausing.await;
        Instant::now()
    });
    println!("the last pause ended {:?} ago", paused.elapsed());
    all_applied(&system, TAKEOVER_TIMEOUT).await;
    assert_eq!(inspect::dead_letters(&system).await, 0);
}
