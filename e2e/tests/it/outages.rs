//! Servers that are down, hang or are full: every event answered with 202 is recorded exactly once.
//!
//! `E2E_OUTAGE_SECONDS` (20) sets how long PostgreSQL is down.

use std::time::{Duration, Instant};

use e2e::inspect::StoredEvents;
use e2e::{Api, ApiResponse, Options, System, inspect};
use serde_json::json;

use crate::shop::{Shop, event_id};

/// Time limit until a client gets the error that the broker is down.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit from a server's return until everything works.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends single events with generated IDs, and keeps which of them were accepted.
struct Sender {
    api: Api,
    accepted: Vec<String>,
    rejected: Vec<String>,
}

impl Sender {
    fn new(system: &System) -> Self {
        Self { api: system.api.clone(), accepted: Vec::new(), rejected: Vec::new() }
    }

    async fn send(&mut self, padding: usize) -> ApiResponse {
        let id = event_id();
        let event = json!({ "event": "page_viewed", "user_id": format!("u{}", self.accepted.len() % 16), "id": id,
                            "properties": { "padding": "x".repeat(padding) } });
        let answer = self.api.track("/events", &event).await;
        assert!(answer.took < RESPONSE_TIMEOUT, "a response took {:?}: {answer:?}", answer.took);
        match answer.status {
            202 => self.accepted.push(id),
            503 => {
                assert!((1..=60).contains(&answer.retry_after.unwrap_or(0)), "no Retry-After: {answer:?}");
                self.rejected.push(id);
            }
            _ => panic!("{answer:?}"),
        }
        answer
    }

    /// Sends for `time`, and checks that every response has this status.
    async fn send_for(&mut self, time: Duration, padding: usize, status: u16) {
        let began = Instant::now();
        while began.elapsed() < time {
            let answer = self.send(padding).await;
            assert_eq!(answer.status, status, "after {:?}: {}", began.elapsed(), answer.json);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Sends until an event is accepted, at most for `RECOVERY_TIMEOUT`.
    async fn send_until_accepted(&mut self) {
        let back = Instant::now();
        while self.send(0).await.status != 202 {
            assert!(back.elapsed() < RECOVERY_TIMEOUT, "still refused {RECOVERY_TIMEOUT:?} after the return");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        println!("accepted again after {:?}", back.elapsed());
    }

    /// Retries refused events, as clients do, and waits until every event is recorded exactly once.
    async fn check_recorded_once(&mut self, system: &System) {
        for id in std::mem::take(&mut self.rejected) {
            let event = json!({ "event": "page_viewed", "user_id": "late", "id": id, "properties": {} });
            self.api.track("/events", &event).await.expect(202);
            self.accepted.push(id);
        }
        let (db, all) = (inspect::database(system).await, self.accepted.len() as i64);
        let probe = async || {
            let stored = inspect::events(&db, "page_viewed").await;
            if stored == StoredEvents::each_once(all) { Ok(()) } else { Err(format!("{stored:?} of {all}")) }
        };
        testkit::eventually(Duration::from_secs(30), probe).await;
        let counted = self.api.get("/events?event=page_viewed&limit=1").await.expect(200);
        assert_eq!(counted["pagination"]["total"], all, "the exact counter");
        for id in &self.accepted {
            self.api.get(&format!("/events/{id}")).await.expect(200);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_outage_makes_gateways_ask_for_retries() {
    let mut system = System::start().await;
    let mut sender = Sender::new(&system);
    for crash in [true, false] {
        sender.send_for(Duration::from_millis(300), 0, 202).await;
        if crash {
            system.nats.kill().await;
        } else {
            system.nats.suspend().await;
        }
        sender.send_for(Duration::from_secs(4), 0, 503).await;
        system.api.get("/events?limit=1").await.expect(200);
        if crash {
            system.nats.start_again().await;
        } else {
            system.nats.resume();
        }
        sender.send_until_accepted().await;
        sender.check_recorded_once(&system).await;
    }
    assert!(system.gateway.try_exit_status().is_none(), "the gateway exited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_accepted_during_a_postgres_outage() {
    let seconds = std::env::var("E2E_OUTAGE_SECONDS").ok().map_or(20, |s| s.parse().expect("E2E_OUTAGE_SECONDS"));
    let mut system = System::start().await;
    Shop::open(&system, 2).await;
    let mut sender = Sender::new(&system);
    sender.send_for(Duration::from_millis(500), 0, 202).await;
    // A mail that becomes due during the outage.
    let known = json!({ "user_id": "ada", "properties": { "email": "ada@example.com", "name": "Ada" } });
    system.api.track("/users/identify", &known).await.expect(202);
    system.api.until("/users/ada", Duration::from_secs(5), |_| true).await;
    system.postgres.kill().await;
    let signed_up = json!({ "event": "signed_up", "user_id": "ada", "properties": {} });
    system.api.track("/events", &signed_up).await.expect(202);
    sender.send_for(Duration::from_secs(seconds), 0, 202).await;
    let read = system.api.get("/events").await;
    assert!(read.status == 503 && read.retry_after.is_some(), "{read:?}");
    system.postgres.start_again().await;

    let back = Instant::now();
    system.mail_to("ada@example.com", Duration::from_secs(15)).await;
    println!("mailed {:?} after the return, {} events during the outage", back.elapsed(), sender.accepted.len());
    sender.check_recorded_once(&system).await;
    let signed_up = system.api.get("/events?event=signed_up&limit=1").await.expect(200);
    assert_eq!(signed_up["pagination"]["total"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_outage_does_not_affect_events() {
    let mut system = System::start().await;
    let mut sender = Sender::new(&system);
    for crash in [true, false] {
        sender.send_for(Duration::from_millis(300), 0, 202).await;
        if crash {
            system.redis.kill().await;
        } else {
            system.redis.suspend().await;
        }
        sender.send_for(Duration::from_secs(3), 0, 202).await;
        if crash { system.redis.start_again().await } else { system.redis.resume() }
    }
    sender.send_for(Duration::from_secs(1), 0, 202).await;
    sender.check_recorded_once(&system).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_stream_rejects_events_and_keeps_accepted_ones() {
    let mut system = System::start_with(Options::default().env("INGEST_MAX_BYTES", 1_048_576)).await;
    system.automation.stop().await;
    let mut sender = Sender::new(&system);
    while sender.send(30_000).await.status == 202 {
        assert!(sender.accepted.len() < 100, "a stream of 1 MiB took 3 MB");
    }
    assert!(sender.accepted.len() > 20, "{} of 30 kB were accepted", sender.accepted.len());
    sender.send_for(Duration::from_secs(1), 30_000, 503).await;

    // Once they are applied, the scheduler frees space in the stream, at its start and every minute.
    system.automation.start().await;
    let db = inspect::database(&system).await;
    let all = sender.accepted.len() as i64;
    let stored = async || inspect::events(&db, "page_viewed").await == StoredEvents::each_once(all);
    testkit::eventually_true("all accepted events are stored", Duration::from_secs(20), stored).await;
    system.scheduler.stop().await;
    system.scheduler.start().await;
    sender.send_until_accepted().await;
    sender.check_recorded_once(&system).await;
}
