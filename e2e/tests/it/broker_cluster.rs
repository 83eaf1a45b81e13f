//! Kills the servers of a three-node NATS cluster, one at a time and all at once, under load. Every accepted event is
//! recorded exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use e2e::inspect::StoredEvents;
use e2e::{Api, System, broker, inspect};
use futures_util::future::join_all;
use serde_json::json;
use testkit::{eventually, eventually_true};

use crate::shop::event_id;

/// Clients. Each sends one event at a time.
const CLIENTS: usize = 8;
/// Accepted events that prove that the product works again.
const PROGRESS_EVENTS: usize = 200;
/// Time limits for recovery after the loss of one server, and after the restart of all three.
const ONE_DOWN_TIMEOUT: Duration = Duration::from_secs(30);
const ALL_DOWN_TIMEOUT: Duration = Duration::from_mins(1);

/// State that the clients share.
#[derive(Default)]
struct Load {
    accepted: AtomicUsize,
    rejected: AtomicUsize,
    stopped: AtomicBool,
}

impl Load {
    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Waits until `PROGRESS_EVENTS` more events are accepted, and prints how long that took.
    async fn wait_for_progress(&self, what: &str, within: Duration) {
        let (began, before) = (Instant::now(), self.accepted());
        eventually_true(what, within, async || self.accepted() >= before + PROGRESS_EVENTS).await;
        println!("{what}: {PROGRESS_EVENTS} more after {:?}", began.elapsed());
    }
}

/// Sends events with fresh IDs and, as clients do, retries each until it is accepted.
async fn client(api: Api, load: Arc<Load>, number: usize) {
    while !load.stopped.load(Ordering::Relaxed) {
        let event =
            json!({ "event": "page_viewed", "user_id": format!("u{number}"), "id": event_id(), "properties": {} });
        loop {
            let answer = api.track("/events", &event).await;
            match answer.status {
                202 => {
                    load.accepted.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                503 => load.rejected.fetch_add(1, Ordering::Relaxed),
                _ => panic!("{answer:?}"),
            };
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_recorded_once_while_cluster_servers_are_killed() {
    let mut nats = broker::cluster().await;
    eventually(ONE_DOWN_TIMEOUT, async || broker::create_streams(&nats).await.map_err(|error| format!("{error:#}")))
        .await;
    let system = System::start_with(broker::options(&nats)).await;
    let db = inspect::database(&system).await;
    let load = Arc::new(Load::default());
    let clients: Vec<_> =
        (0..CLIENTS).map(|number| tokio::spawn(client(system.api.clone(), load.clone(), number))).collect();
    load.wait_for_progress("with all servers", ONE_DOWN_TIMEOUT).await;

    for (number, server) in nats.iter_mut().enumerate() {
        server.kill().await;
        load.wait_for_progress(&format!("without server {number}"), ONE_DOWN_TIMEOUT).await;
        server.start_again().await;
        // Killing another server before this one has caught up would cost the quorum.
        server.healthy().await;
    }
    join_all(nats.iter().map(testkit::ConfiguredNats::kill)).await;
    for server in &mut nats {
        server.start_again().await;
    }
    load.wait_for_progress("after the loss of all servers", ALL_DOWN_TIMEOUT).await;

    load.stopped.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("a client panicked");
    }
    let all = load.accepted() as i64;
    println!("{all} accepted, {} rejected meanwhile", load.rejected.load(Ordering::Relaxed));
    let probe = async || {
        let stored = inspect::events(&db, "page_viewed").await;
        if stored == StoredEvents::each_once(all) { Ok(()) } else { Err(format!("{stored:?} of {all}")) }
    };
    eventually(ALL_DOWN_TIMEOUT, probe).await;
}
