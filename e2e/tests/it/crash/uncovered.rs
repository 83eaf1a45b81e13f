//! Failpoints that the shop's day does not reach, or not reliably. The program dies once at each, and its unfinished
//! work takes effect once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use e2e::failpoint_kills::{self, FailpointKill, kill_at};
use e2e::inspect::StoredEvents;
use e2e::{Options, System, inspect, mails};
use jiff::SignedDuration;
use kernel::clock::{Clock, rfc3339};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{ProviderServer, Received, Reply, eventually, eventually_true};
use tokio_postgres::Client;

const DATE_FAILPOINTS: [&str; 2] = ["scheduler.after_dates_taken", "scheduler.after_dates_published"];
const START_FAILPOINTS: [&str; 2] = ["scheduler.before_starts_published", "scheduler.after_starts_published"];
const CAMPAIGN_FAILPOINTS: [&str; 2] = ["scheduler.after_campaign_held", "scheduler.after_campaign_released"];
const CALL_FAILPOINTS: [&str; 2] = ["automation.after_call_made", "automation.after_call_answered"];
const OUTBOX_FAILPOINTS: [&str; 1] = ["automation.after_outbox_published"];
const IMPORT_FAILPOINTS: [&str; 2] = ["gateway.after_import_published", "gateway.after_import_noted"];
/// Covered by `worker-delivery/tests/it/crash.rs`: they need providers, endpoints, or more direct messages than the day
/// has.
const DELIVERY_FAILPOINTS: [&str; 6] = [
    "delivery.after_receive",
    "delivery.after_record",
    "delivery.after_direct_begun",
    "delivery.after_sms_sent",
    "delivery.after_webhooks_taken",
    "delivery.after_webhook_called",
];

const USERS: usize = 20;
/// Time until a date is due. All users' dates are stored by then.
const DATE_DELAY: SignedDuration = SignedDuration::from_secs(3);
const SOON: Duration = Duration::from_secs(30);
/// Lines of an import in three slices, the last of them partial.
const LINES: usize = 2_500;
const SLICE: i64 = 1_000;

/// Returns all failpoints that the day does not cover.
pub fn all() -> impl Iterator<Item = &'static str> {
    DATE_FAILPOINTS
        .into_iter()
        .chain(START_FAILPOINTS)
        .chain(CAMPAIGN_FAILPOINTS)
        .chain(CALL_FAILPOINTS)
        .chain(OUTBOX_FAILPOINTS)
        .chain(IMPORT_FAILPOINTS)
        .chain(DELIVERY_FAILPOINTS)
}

#[test]
fn uncovered_failpoints_exist_and_are_tested() {
    let known: BTreeSet<String> = failpoint_kills::failpoints().into_values().flatten().collect();
    let mut listed = BTreeSet::new();
    for name in all() {
        assert!(known.contains(name), "unknown failpoint {name}");
        assert!(listed.insert(name), "{name} is listed twice");
    }
    let own = include_str!("../../../../worker-delivery/tests/it/crash.rs");
    for name in DELIVERY_FAILPOINTS {
        assert!(own.contains(&format!("\"{name}\"")), "no test covers {name}");
    }
}

fn at_hit(failpoint: &str, hit: u32) -> FailpointKill {
    FailpointKill { failpoint: failpoint.to_owned(), hit }
}

fn log(system: &System) -> PathBuf {
    system.dir().join("failpoints.log")
}

fn user_ids() -> impl Iterator<Item = String> {
    (0..USERS).map(|n| format!("u{n}"))
}

/// Sends one item per user in one batch.
async fn send_items(system: &System, item: impl Fn(&str) -> Value) {
    let batch: Vec<Value> = user_ids().map(|user| item(&user)).collect();
    let answer = system.api.track("/events/batch", &json!({ "batch": batch })).await.expect(202);
    assert_eq!(answer["processed"], USERS, "{answer}");
}

async fn identify(system: &System, properties: impl Fn(&str) -> Value) {
    send_items(system, |user| json!({ "type": "identify", "user_id": user, "properties": properties(user) })).await;
}

async fn count(db: &Client, sql: &str) -> i64 {
    db.query_one(sql, &[]).await.expect("a count").get(0)
}

/// Creates an automation that allows re-entry, so that a duplicate start would show.
async fn automation(system: &System, trigger: Value) {
    let mut automation = json!({
        "name": "Crashed", "active": true, "reentry": "always",
        "steps": [{ "type": "TRACK_EVENT", "event": "continued", "properties": {} }],
    });
    let fields = automation.as_object_mut().expect("an object");
    fields.extend(trigger.as_object().cloned().expect("an object"));
    system.api.create("/automations", &automation).await;
}

/// Waits until every user's run has completed, nothing is left to publish, and everything published is applied. Then
/// checks that no user has a second run.
async fn check_each_ran_once(system: &System, db: &Client, left: &str) {
    let done = async || {
        let runs = count(db, "SELECT count(*) FROM run WHERE status = 'completed'").await;
        let continued = inspect::events(db, "continued").await.rows;
        let left = count(db, left).await;
        let is_done = runs.min(continued) >= USERS as i64 && left == 0;
        if is_done { Ok(()) } else { Err(format!("{runs} runs, {continued} events, {left} rows left")) }
    };
    eventually(SOON, done).await;
    // These items use the same partitions as the starts.
    send_items(system, |user| json!({ "type": "track", "event": "last", "user_id": user, "properties": {} })).await;
    let recorded = async || inspect::events(db, "last").await.rows == USERS as i64;
    eventually_true("all items are applied", SOON, recorded).await;
    let counts = db.query_one("SELECT count(*), count(DISTINCT user_id) FROM run", &[]).await.expect("the runs");
    assert_eq!([counts.get::<_, i64>(0), counts.get(1)], [USERS as i64; 2], "runs, users");
    assert_eq!(inspect::events(db, "continued").await, StoredEvents::each_once(USERS as i64));
    assert_eq!(inspect::dead_letters(system).await, 0, "there are dead letters");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn due_date_starts_one_run() {
    let mut system = System::start().await;
    let (db, log) = (inspect::database(&system).await, log(&system));
    automation(&system, json!({ "triggerType": "DATE_PROPERTY", "triggerDate": { "property": "moment" } })).await;
    // A scan of existing users that is still pending would store the dates below, too.
    let planned = async || count(&db, "SELECT count(*) FROM automation WHERE dates_since IS NOT NULL").await == 0;
    eventually_true("all users were scanned", SOON, planned).await;
    system.scheduler.kill().await;
    let moment = rfc3339(Clock::system().now() + DATE_DELAY);
    identify(&system, |_| json!({ "moment": moment })).await;
    let stored = async || count(&db, "SELECT count(*) FROM date_due").await == USERS as i64;
    eventually_true("the dates are stored", SOON, stored).await;
    for point in DATE_FAILPOINTS {
        kill_at(&mut system.scheduler, &at_hit(point, 1), &log).await;
        let left = count(&db, "SELECT count(*) FROM date_due WHERE due_at <= now() AND look_at > now()").await;
        assert!(left > 0, "at {point} no unfinished work is left");
        // Simulates half a minute.
        db.batch_execute("UPDATE date_due SET look_at = now()").await.expect("dates");
    }
    system.scheduler.start().await;
    check_each_ran_once(&system, &db, "SELECT count(*) FROM date_due").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entering_a_segment_starts_one_run() {
    let mut system = System::start().await;
    let (db, log) = (inspect::database(&system).await, log(&system));
    let rules = json!([{ "field": "plan", "operator": "eq", "value": "pro" }]);
    let segment = system.api.create("/segments", &json!({ "name": "Pro", "rules": rules })).await;
    automation(&system, json!({ "triggerType": "SEGMENT_ENTER", "triggerSegmentId": segment })).await;
    let path = format!("/segments/{segment}");
    system.api.until(&path, SOON, |segment| segment["membership"]["status"] == "kept").await;
    system.scheduler.kill().await;
    identify(&system, |_| json!({ "plan": "pro" })).await;
    for point in START_FAILPOINTS {
        kill_at(&mut system.scheduler, &at_hit(point, 1), &log).await;
        let left = count(&db, "SELECT count(*) FROM segment_start").await;
        assert!(left > 0, "at {point} no unfinished work is left");
    }
    system.scheduler.start().await;
    let left = "SELECT (SELECT count(*) FROM segment_start) + (SELECT count(*) FROM segment_dirty)";
    check_each_ran_once(&system, &db, left).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_step_continues_once() {
    let server = ProviderServer::start(|_: &Received| Reply::json(200, &json!({}))).await;
    // A short lease, so that the work of killed processes is soon taken over.
    let mut system = System::start_with(Options::default().env("PARTITION_LEASE_MS", 1_500)).await;
    let (db, log) = (inspect::database(&system).await, log(&system));
    let call =
        json!({ "type": "WEBHOOK", "name": "crm", "url": server.url(), "body": { "of": "{{ user.externalId }}" } });
    let track = json!({ "type": "TRACK_EVENT", "event": "continued", "properties": {} });
    let trigger = json!({ "triggerType": "EVENT", "triggerEvent": "go", "steps": [call, track] });
    automation(&system, trigger).await;
    system.automation.kill().await;
    send_items(&system, |user| json!({ "type": "track", "event": "go", "user_id": user, "properties": {} })).await;
    for point in CALL_FAILPOINTS {
        kill_at(&mut system.automation, &at_hit(point, 1), &log).await;
        let left = count(&db, "SELECT count(*) FROM webhook_call").await;
        assert!(left > 0, "at {point} no unfinished work is left");
        // Simulates a minute.
        db.batch_execute("UPDATE webhook_call SET due_at = now()").await.expect("calls");
    }
    system.automation.start().await;
    check_each_ran_once(&system, &db, "SELECT count(*) FROM webhook_call").await;
    let mut called: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for call in server.received() {
        let id = call.header("webhook-id").to_owned();
        called.entry(call.json()["of"].to_string()).or_default().insert(id);
    }
    assert_eq!(called.len(), USERS);
    assert!(called.values().all(|ids| ids.len() == 1), "calls for one user have different IDs: {called:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_outbox_rows_are_recorded_once() {
    // A short lease, so that the work of killed processes is soon taken over.
    let mut system = System::start_with(Options::default().env("PARTITION_LEASE_MS", 1_500)).await;
    let (db, log) = (inspect::database(&system).await, log(&system));
    automation(&system, json!({ "triggerType": "EVENT", "triggerEvent": "go" })).await;
    system.automation.kill().await;
    send_items(&system, |user| json!({ "type": "track", "event": "go", "user_id": user, "properties": {} })).await;
    for point in OUTBOX_FAILPOINTS {
        kill_at(&mut system.automation, &at_hit(point, 1), &log).await;
        let left = count(&db, "SELECT count(*) FROM outbox").await;
        assert!(left > 0, "at {point} no row is left to publish again");
    }
    system.automation.start().await;
    check_each_ran_once(&system, &db, "SELECT count(*) FROM outbox").await;
}

/// Creates a campaign to all users and sends it.
async fn send_campaign(system: &System, name: &str) -> String {
    let template = json!({ "name": name, "channel": "EMAIL", "subject": name, "body": "<p>Today</p>" });
    let template = system.api.create("/templates", &template).await;
    let rules = json!([{ "field": "plan", "operator": "eq", "value": "pro" }]);
    let segment = system.api.create("/segments", &json!({ "name": name, "rules": rules })).await;
    let campaign = json!({ "name": name, "channel": "EMAIL", "segmentId": segment, "templateId": template });
    let campaign = system.api.create("/campaigns", &campaign).await;
    system.api.post(&format!("/campaigns/{campaign}/send"), &json!({})).await.expect(200);
    campaign
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn released_chunks_are_sent_once_if_the_scheduler_dies_before_its_hint() {
    let mut system = System::start().await;
    let (db, log) = (inspect::database(&system).await, log(&system));
    identify(&system, |user| json!({ "plan": "pro", "email": format!("{user}@example.com") })).await;
    system.api.until("/users", SOON, |page| page["total"] == USERS).await;
    system.scheduler.kill().await;
    system.delivery.kill().await;
    let campaign = send_campaign(&system, "Sale").await;
    for point in CAMPAIGN_FAILPOINTS {
        kill_at(&mut system.scheduler, &at_hit(point, 1), &log).await;
    }
    assert!(count(&db, "SELECT count(*) FROM send_chunk WHERE due_at <= now()").await > 0, "no chunk was released");
    assert_eq!(count(&db, "SELECT count(*) FROM message").await, 0, "a recipient's row was written before sending");
    system.delivery.start().await;
    system.scheduler.start().await;

    system.api.until(&format!("/campaigns/{campaign}"), SOON, |campaign| campaign["status"] == "COMPLETED").await;
    inspect::until_drained(&system, &db, SOON).await;
    let (copies, ledger) = (mails::copies(&system.mailbox), inspect::ledger(&db).await);
    assert_eq!((copies.len(), ledger.len()), (USERS, USERS), "{ledger:?}");
    for row in &ledger {
        assert_eq!((row.status.as_str(), row.ambiguous, copies.get(&row.id)), ("sent", 0, Some(&1)), "{row:?}");
    }
    assert_eq!(count(&db, "SELECT count(DISTINCT user_id) FROM message").await, USERS as i64, "messages per user");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn import_continues_after_its_stored_progress() {
    let mut system = System::start().await;
    let (db, log, api) = (inspect::database(&system).await, log(&system), system.api.clone());
    let line = |n| json!({ "user_id": format!("u{n}"), "properties": { "n": n } });
    let file = (0..LINES).map(|n| format!("{}\n", line(n))).collect::<Vec<_>>().concat();
    system.gateway.kill().await;
    let [published, stored] = IMPORT_FAILPOINTS;
    let mut next_line = 1;
    // The second slice is published twice, and recorded once.
    for (point, hit) in [(published, 2), (stored, 1)] {
        let importing = async {
            let answers = async || {
                let answer = api.call(Method::GET, "/users", &api.secret_key, None).await;
                answer.is_ok_and(|answer| answer.status == 200)
            };
            eventually_true("the gateway responds", SOON, answers).await;
            api.import("file", file.clone()).await
        };
        let kill = at_hit(point, hit);
        let ((), broken) = tokio::join!(kill_at(&mut system.gateway, &kill, &log), importing);
        assert!(broken.is_err(), "{broken:?}");
        let before = std::mem::replace(&mut next_line, count(&db, "SELECT next_line FROM user_import").await);
        assert!(
            (before + 1..=before + SLICE).contains(&next_line),
            "at {point} progress was stored from {before} to {next_line}"
        );
        // Simulates half a minute.
        let sql = "UPDATE user_import SET lease_until = now() - interval '1 second'";
        db.batch_execute(sql).await.expect("the import");
    }
    system.gateway.start().await;
    let import = api.import("file", file).await.expect("a response").expect(200);
    assert_eq!((&import["status"], &import["imported"]), (&json!("completed"), &json!(LINES)), "{import}");
    api.until("/users", SOON, |page| page["total"] == LINES).await;
    let exported = api.export("/users/export").await;
    let users: BTreeSet<(&str, Option<u64>)> = exported
        .iter()
        .filter_map(|user| Some((user["externalId"].as_str()?, user["properties"]["n"].as_u64())))
        .collect();
    let expected: Vec<(String, Option<u64>)> = (0..LINES).map(|n| (format!("u{n}"), Some(n as u64))).collect();
    assert_eq!(exported.len(), LINES);
    assert!(expected.iter().all(|(user, n)| users.contains(&(user.as_str(), *n))), "a user is missing or changed");
    assert_eq!(inspect::dead_letters(&system).await, 0, "there are dead letters");
}
