//! Runs two of each program, and restarts every process in sequence under load. No client is cut off, nothing is lost,
//! and nothing happens twice.
//!
//! `E2E_ROLLING_ROUNDS` (2) sets how often each process is restarted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use e2e::inspect::StoredEvents;
use e2e::{Api, Program, System, inspect, mails};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::eventually;

use crate::shop::{Shop, event_id, number};

pub const CLIENTS: usize = 6;
/// Pause between two requests of a client.
const PAUSE: Duration = Duration::from_millis(25);
/// One in this many requests of a client signs up a user, who gets a mail.
const SIGN_UP_EVERY: usize = 8;
/// Time limit from SIGTERM to exit.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// A gateway refuses connections only this long before it exits and until it is ready again.
const REJECT_BEFORE_EXIT: Duration = Duration::from_secs(1);
/// A request that one gateway refuses is not refused by both.
const MAX_TRIES: usize = 3;
/// The broker redelivers messages that a stopped worker had just received after half a minute.
const DRAIN: Duration = Duration::from_mins(1);

/// Times of a program's restart: SIGTERM, exit, and ready again.
pub struct Restart {
    program: &'static str,
    /// Index of the gateway, if it is one.
    gateway: Option<usize>,
    sigterm_at: Instant,
    exited_at: Instant,
    ready_at: Instant,
}

/// Responses of the gateways. The pairs hold a gateway's index and the time.
#[derive(Default)]
pub struct ClientResult {
    /// Single `page_viewed` events that were answered with 202.
    viewed: i64,
    /// Users who signed up, each in one batch that was answered with 202.
    emails: Vec<String>,
    requests: u64,
    asked_to_retry: Vec<(usize, Instant)>,
    rejected: Vec<(usize, Instant)>,
    slowest: Duration,
}

/// An SDK that knows both gateways, without a load balancer: it fails over to the other gateway.
struct Client {
    gateways: [Api; 2],
    at: usize,
    seen: ClientResult,
}

impl Client {
    async fn send(&mut self, path: &str, body: &Value) {
        let began = Instant::now();
        for _ in 0..MAX_TRIES {
            let gateway = &self.gateways[self.at];
            self.seen.requests += 1;
            match gateway.call(Method::POST, path, &gateway.public_key, Some(body)).await {
                Ok(answer) if answer.status == 202 => {
                    assert_eq!(answer.json["errors"].as_u64().unwrap_or(0), 0, "{answer:?}");
                    self.seen.slowest = self.seen.slowest.max(began.elapsed());
                    return;
                }
                Ok(answer) => {
                    let message = answer.json["message"].as_str().unwrap_or_default();
                    assert!(answer.status == 503 && message.contains("this gateway is stopping"), "{answer:?}");
                    assert!((1..=5).contains(&answer.retry_after.unwrap_or(0)), "no Retry-After: {answer:?}");
                    self.seen.asked_to_retry.push((self.at, Instant::now()));
                }
                Err(error) => {
                    assert!(error.contains("ConnectionRefused"), "a request was cut off: {error}");
                    self.seen.rejected.push((self.at, Instant::now()));
                }
            }
            self.at = 1 - self.at;
        }
        panic!("both gateways rejected a request {MAX_TRIES} times in a row");
    }

    /// Sends until the load ends.
    async fn load(mut self, name: usize, over: &AtomicBool) -> ClientResult {
        for n in 0.. {
            if over.load(Ordering::Relaxed) {
                break;
            }
            if n % SIGN_UP_EVERY == 0 {
                let user = format!("p{name}-{n}");
                let mail = format!("{user}@example.com");
                let event = |event: &str| json!({ "type": "track", "event": event, "user_id": user, "id": event_id(), "properties": { "cartId": n } });
                let properties = json!({ "email": mail, "name": user });
                let known = json!({ "type": "identify", "user_id": user, "properties": properties });
                let batch = json!({ "batch": [known, event("signed_up"), event("checkout_started")] });
                self.send("/events/batch", &batch).await;
                self.seen.emails.push(mail);
            } else {
                let event = json!({ "event": "page_viewed", "user_id": format!("u{name}-{}", n % 5), "id": event_id(),
                                    "properties": { "n": n } });
                self.send("/events", &event).await;
                self.seen.viewed += 1;
            }
            tokio::time::sleep(PAUSE).await;
        }
        self.seen
    }
}

/// Sends SIGTERM, checks that the program exits in time and without errors, and starts it again.
async fn restart(program: &mut Program, gateway: Option<usize>) -> Restart {
    let sigterm_at = Instant::now();
    program.stop().await;
    let exited_at = Instant::now();
    assert!(exited_at - sigterm_at < STOP_TIMEOUT, "{} took {:?} to stop", program.name(), exited_at - sigterm_at);
    program.start().await;
    Restart { program: program.name(), gateway, sigterm_at, exited_at, ready_at: Instant::now() }
}

/// The second instance of each program.
pub struct SecondInstances {
    pub api: Api,
    gateway: Program,
    automation: Program,
    delivery: Program,
    scheduler: Program,
}

impl SecondInstances {
    pub async fn start(system: &System) -> Self {
        let (mut gateway, api) = system.new_gateway("second");
        let mut automation = system.new_program("worker-automation", "second");
        let mut delivery = system.new_program("worker-delivery", "second");
        let mut scheduler = system.new_program("scheduler", "second");
        tokio::join!(gateway.start(), automation.start(), delivery.start(), scheduler.start());
        Self { api, gateway, automation, delivery, scheduler }
    }
}

/// Runs the `n`th client, with its own connections, until the load ends. Returns what it saw.
pub async fn load(gateways: &[Api; 2], n: usize, over: &AtomicBool) -> ClientResult {
    let own = |api: &Api| api.with_own_connections();
    let gateways = [own(&gateways[0]), own(&gateways[1])];
    Client { gateways, at: n % 2, seen: ClientResult::default() }.load(n, over).await
}

/// Restarts every process in sequence.
pub async fn restart_each(first: &mut System, second: &mut SecondInstances) -> Vec<Restart> {
    let mut restarts = vec![restart(&mut first.gateway, Some(0)).await, restart(&mut second.gateway, Some(1)).await];
    for program in [
        &mut first.automation,
        &mut second.automation,
        &mut first.delivery,
        &mut second.delivery,
        &mut first.scheduler,
        &mut second.scheduler,
    ] {
        restarts.push(restart(program, None).await);
    }
    restarts
}

/// Results of the clients while programs were restarted.
pub struct RollingResult {
    pub seen: Vec<ClientResult>,
    pub restarts: Vec<Restart>,
    pub took: Duration,
}

impl RollingResult {
    /// Checks that no client was cut off, and that everything answered with 202 is recorded exactly once.
    pub async fn check(&self, system: &System, db: &tokio_postgres::Client) {
        let emails: Vec<&String> = self.seen.iter().flat_map(|seen| &seen.emails).collect();
        let viewed: i64 = self.seen.iter().map(|seen| seen.viewed).sum();
        report(&self.seen, &self.restarts, self.took);
        check_rejections(&self.seen, &self.restarts);
        check_recorded_once(system, db, viewed, &emails).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_restart_under_load_loses_and_repeats_nothing() {
    let rounds = number("E2E_ROLLING_ROUNDS").unwrap_or(2);
    let mut system = System::start().await;
    Shop::open(&system, 2).await;
    let db = inspect::database(&system).await;
    let mut second = SecondInstances::start(&system).await;
    let gateways = [system.api.clone(), second.api.clone()];

    let over = AtomicBool::new(false);
    let began = Instant::now();
    let rolling = async {
        let mut restarts = Vec::new();
        for _ in 0..rounds {
            restarts.extend(restart_each(&mut system, &mut second).await);
        }
        over.store(true, Ordering::Relaxed);
        restarts
    };
    let clients = join_all((0..CLIENTS).map(|n| load(&gateways, n, &over)));
    let (seen, restarts) = tokio::join!(clients, rolling);
    RollingResult { seen, restarts, took: began.elapsed() }.check(&system, &db).await;
}

/// Checks that a gateway asked clients to retry only while it stopped, and refused connections only around its exit.
fn check_rejections(seen: &[ClientResult], restarts: &[Restart]) {
    let of = |gateway: usize| restarts.iter().filter(move |restart| restart.gateway == Some(gateway));
    for (gateway, at) in seen.iter().flat_map(|seen| &seen.asked_to_retry) {
        assert!(
            of(*gateway).any(|r| r.sigterm_at <= *at && *at <= r.ready_at),
            "gateway {gateway} asked for a retry while it was running"
        );
    }
    for (gateway, at) in seen.iter().flat_map(|seen| &seen.rejected) {
        let at_its_end = of(*gateway).any(|r| r.exited_at <= *at + REJECT_BEFORE_EXIT && *at <= r.ready_at);
        assert!(at_its_end, "gateway {gateway} refused connections before its exit");
    }
    let retries: usize = seen.iter().map(|seen| seen.asked_to_retry.len()).sum();
    assert!(retries > 0, "no request arrived while a gateway stopped");
}

/// Checks that everything answered with 202 is stored once, its mails were sent once, and no work is left.
async fn check_recorded_once(system: &System, db: &tokio_postgres::Client, viewed: i64, emails: &[&String]) {
    let (signed_up, over) = (emails.len() as i64, Instant::now());
    for (event, count) in [("page_viewed", viewed), ("signed\\_up", signed_up), ("checkout\\_started", signed_up)] {
        eventually(DRAIN, async || match inspect::events(db, event).await {
            stored if stored == StoredEvents::each_once(count) => Ok(()),
            stored => Err(format!("{event}: {stored:?} of {count}")),
        })
        .await;
    }
    eventually(DRAIN, async || match mails::copies(&system.mailbox).len() {
        received if received == 2 * emails.len() => Ok(()),
        received => Err(format!("{received} of {} mails", 2 * emails.len())),
    })
    .await;
    println!("the last mail arrived {:.1?} after the load", over.elapsed());
    inspect::until_drained(system, db, DRAIN).await;
    let copies = mails::copies(&system.mailbox);
    assert!(copies.values().all(|copies| *copies == 1), "{copies:?}");
    let mut received: BTreeMap<String, u32> = BTreeMap::new();
    for mail in system.mailbox.mails() {
        mail.delivered_to().iter().for_each(|to| *received.entry(to.clone()).or_default() += 1);
    }
    assert!(emails.iter().all(|email| received.get(*email) == Some(&2)), "a user did not get two mails: {received:?}");
    let ledger = inspect::ledger(db).await;
    assert_eq!(ledger.len(), 2 * emails.len());
    assert!(ledger.iter().all(|row| row.status == "sent" && row.ambiguous == 0), "{ledger:?}");
    assert_eq!(inspect::dead_letters(system).await, 0, "there are dead letters");
}

fn report(seen: &[ClientResult], restarts: &[Restart], took: Duration) {
    let mut drains: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for restart in restarts {
        drains.entry(restart.program).or_default().push(restart.exited_at - restart.sigterm_at);
    }
    for (program, mut drains) in drains {
        drains.sort_unstable();
        let (median, longest) = (drains[drains.len() / 2], drains[drains.len() - 1]);
        println!("{program:>20}: {} restarts, from SIGTERM to exit {median:.2?}, at most {longest:.2?}", drains.len());
    }
    let sum = |count: fn(&ClientResult) -> u64| seen.iter().map(count).sum::<u64>();
    println!(
        "{} requests in {took:.1?}, {} asked to retry, {} refused; the slowest took {:.2?} including retries",
        sum(|seen| seen.requests),
        sum(|seen| seen.asked_to_retry.len() as u64),
        sum(|seen| seen.rejected.len() as u64),
        seen.iter().map(|seen| seen.slowest).max().unwrap_or_default(),
    );
}
