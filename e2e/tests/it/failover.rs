//! Kills PostgreSQL's primary under load and promotes its standby. The programs reconnect by themselves, and all
//! accepted events are recorded exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use e2e::inspect::StoredEvents;
use e2e::{Api, Options, System, inspect, mails};
use serde_json::json;
use testkit::{eventually, eventually_true};

use crate::shop::{Shop, event_id};

/// Clients. Each sends one request at a time.
const CLIENTS: usize = 6;
/// One in this many requests of a client signs up a user, who gets a mail.
const SIGN_UP_EVERY: usize = 8;
/// Accepted requests that prove that the product works.
const PROGRESS_EVENTS: usize = 150;
const SOON: Duration = Duration::from_secs(20);
/// Time limit from the promotion until the product works as before.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Load {
    viewed: AtomicUsize,
    signed_up: AtomicUsize,
    stopped: AtomicBool,
}

impl Load {
    fn accepted(&self) -> usize {
        self.viewed.load(Ordering::Relaxed) + self.signed_up.load(Ordering::Relaxed)
    }

    async fn wait_for_progress(&self, what: &str) {
        let before = self.accepted();
        eventually_true(what, SOON, async || self.accepted() >= before + PROGRESS_EVENTS).await;
    }
}

/// Sends until the load ends. The broker accepts everything while the database is down, so no request may be rejected.
async fn client(api: Api, load: Arc<Load>, name: usize) {
    for n in 0.. {
        if load.stopped.load(Ordering::Relaxed) {
            return;
        }
        if n % SIGN_UP_EVERY == 0 {
            let user = format!("p{name}-{n}");
            let properties = json!({ "email": format!("{user}@example.com"), "name": user });
            let known = json!({ "type": "identify", "user_id": user, "properties": properties });
            let event =
                json!({ "type": "track", "event": "signed_up", "user_id": user, "id": event_id(), "properties": {} });
            api.track("/events/batch", &json!({ "batch": [known, event] })).await.expect(202);
            load.signed_up.fetch_add(1, Ordering::Relaxed);
        } else {
            let event = json!({ "event": "page_viewed", "user_id": format!("u{name}-{}", n % 5), "id": event_id(),
                                "properties": { "n": n } });
            api.track("/events", &event).await.expect(202);
            load.viewed.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_recorded_once_when_a_standby_is_promoted() {
    // Messages whose begin was committed but not confirmed are sent when their chunk's lease expires.
    let options = Options { standby: true, ..Options::default() }.env("DELIVERY_LEASE_MS", 5_000);
    let mut system = System::start_with(options).await;
    Shop::open(&system, 2).await;
    let load = Arc::new(Load::default());
    let clients: Vec<_> =
        (0..CLIENTS).map(|name| tokio::spawn(client(system.api.with_own_connections(), load.clone(), name))).collect();
    load.wait_for_progress("with the primary").await;

    // The old primary stays down. The test queries the new one from here on.
    let standby = system.standby.take().expect("the system was started with a standby");
    let old_primary = std::mem::replace(&mut system.postgres, standby);
    old_primary.kill_hard().await;
    load.wait_for_progress("without a primary").await;
    let read = system.api.get("/events?limit=1").await;
    assert_eq!(read.status, 503, "a standby was used as the primary: {read:?}");
    system.postgres.promote().await;

    let promoted = Instant::now();
    let template = json!({ "name": "New", "channel": "EMAIL", "subject": "s", "body": "b" });
    eventually(RECOVERY_TIMEOUT, async || match system.api.post("/templates", &template).await {
        answer if answer.status == 201 => Ok(()),
        answer => Err(format!("{answer:?}")),
    })
    .await;
    println!("the gateway writes again {:?} after the promotion", promoted.elapsed());
    let db = inspect::database(&system).await;
    let accepted = load.viewed.load(Ordering::Relaxed) as i64;
    eventually(RECOVERY_TIMEOUT, async || match inspect::events(&db, "page_viewed").await {
        stored if stored.rows >= accepted => Ok(()),
        stored => Err(format!("{} of {accepted}", stored.rows)),
    })
    .await;
    println!("all previously accepted events are recorded {:?} after the promotion", promoted.elapsed());
    load.wait_for_progress("with the new primary").await;
    load.stopped.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("a client panicked");
    }

    let signed_up = load.signed_up.load(Ordering::Relaxed);
    for (event, accepted) in [("page_viewed", load.viewed.load(Ordering::Relaxed)), ("signed\\_up", signed_up)] {
        let all = accepted as i64;
        eventually(SOON, async || match inspect::events(&db, event).await {
            stored if stored == StoredEvents::each_once(all) => Ok(()),
            stored => Err(format!("{event}: {stored:?} of {all}")),
        })
        .await;
    }
    inspect::until_drained(&system, &db, SOON).await;
    let ledger = inspect::ledger(&db).await;
    assert_eq!(ledger.len(), signed_up, "each message is one row");
    let copies = mails::copies(&system.mailbox);
    for row in &ledger {
        let received = copies.get(&row.id).copied().unwrap_or(0);
        assert!(row.status == "sent" && (1..=row.ambiguous + 1).contains(&received), "{received} copies of {row:?}");
    }
    assert_eq!(copies.len(), signed_up, "a mail without a row");
    assert_eq!(inspect::dead_letters(&system).await, 0, "there are dead letters");
    let unknown: u32 = ledger.iter().map(|row| row.ambiguous).sum();
    println!("{} accepted and {signed_up} mails, {unknown} ambiguous calls", load.accepted());
}
