//! Recovery after data loss: the database from a backup and the ingest stream, the broker's streams automatically.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use e2e::inspect::StoredEvents;
use e2e::{System, inspect, mails};
use serde_json::json;
use testkit::eventually;
use tokio::process::Command;
use tokio_postgres::Client;

use crate::shop::{Shop, event_id};

/// Time limit from the start on a restored database until all accepted events are recorded.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit until a broker that lost its disk is used again.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(30);
const BATCH: usize = 20;

/// Runs `deploy/backup` or `deploy/restore` as an operator does.
async fn run(script: &str, system: &System, dir: &Path) -> Output {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(script);
    let ran = Command::new(path).arg(dir).env("DATABASE_URL", system.postgres.url()).output().await;
    ran.unwrap_or_else(|error| panic!("deploy/{script}: {error}"))
}

/// Calls [`run`] and panics if it fails. Returns the duration.
async fn done(script: &str, system: &System, dir: &Path) -> Duration {
    let began = Instant::now();
    let output = run(script, system, dir).await;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "deploy/{script}: {}\n{stdout}\n{stderr}", output.status);
    assert_eq!(stderr, "", "deploy/{script}");
    began.elapsed()
}

/// Sends `batches` batches of events. Each identifies a user, whom later batches update.
async fn views(system: &System, batches: usize) -> i64 {
    for n in 0..batches {
        let user = format!("u{}", n % 7);
        let known = json!({ "type": "identify", "user_id": user, "properties": { "round": n, "id": event_id() } });
        let view = || json!({ "type": "track", "event": "page_viewed", "user_id": user, "id": event_id(), "properties": { "n": n } });
        let batch: Vec<_> = std::iter::once(known).chain((0..BATCH).map(|_| view())).collect();
        system.api.track("/events/batch", &json!({ "batch": batch })).await.expect(202);
    }
    (batches * BATCH) as i64
}

async fn sign_up(system: &System, name: &str) -> String {
    let mail = format!("{name}@example.com");
    let batch = json!({ "batch": [
        { "type": "identify", "user_id": name, "properties": { "email": mail, "name": name } },
        { "type": "track", "event": "signed_up", "user_id": name, "id": event_id(), "properties": {} },
    ] });
    system.api.track("/events/batch", &batch).await.expect(202);
    mail
}

/// Sends one view until it is accepted.
async fn view_accepted(system: &System) -> i64 {
    let event = json!({ "event": "page_viewed", "user_id": "u0", "id": event_id(), "properties": {} });
    eventually(TAKEOVER_TIMEOUT, async || match system.api.track("/events", &event).await {
        answer if answer.status == 202 => Ok(1),
        answer => Err(answer),
    })
    .await
}

/// Waits until `count` views are recorded, each exactly once.
async fn viewed(db: &Client, count: i64, within: Duration) {
    eventually(within, async || match inspect::events(db, "page\\_viewed").await {
        stored if stored == StoredEvents::each_once(count) => Ok(()),
        stored => Err(format!("{stored:?} of {count}")),
    })
    .await;
}

/// Returns all users with their data.
async fn user_count(db: &Client) -> Vec<String> {
    let sql = "SELECT concat_ws(' ', external_id, email, name, properties) FROM users ORDER BY external_id";
    db.query(sql, &[]).await.expect("the users").iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_backup_catches_up_from_the_broker() {
    let mut system = System::start().await;
    let shop = Shop::open(&system, 2).await;
    let db = inspect::database(&system).await;
    let early = sign_up(&system, "early").await;
    let mut count = views(&system, 30).await;
    shop.mails(&early, 1, CATCH_UP_TIMEOUT).await;
    inspect::until_drained(&system, &db, CATCH_UP_TIMEOUT).await;

    // Events arrive during the backup and after it.
    let dir = system.dir().join("backup");
    let (took, meanwhile) = tokio::join!(done("backup", &system, &dir), views(&system, 60));
    count += meanwhile + views(&system, 30).await;
    let late = sign_up(&system, "late").await;
    shop.mails(&late, 1, CATCH_UP_TIMEOUT).await;
    viewed(&db, count, CATCH_UP_TIMEOUT).await;
    inspect::until_drained(&system, &db, CATCH_UP_TIMEOUT).await;
    let (known, messages) = (user_count(&db).await, inspect::ledger(&db).await.len());
    system.stop_programs().await;
    let untouched = run("restore", &system, &dir).await;
    let stderr = String::from_utf8_lossy(&untouched.stderr);
    assert!(!untouched.status.success() && stderr.contains("is not empty"), "{stderr}");
    viewed(&db, count, CATCH_UP_TIMEOUT).await;

    system.postgres.empty().await;
    let restored = done("restore", &system, &dir).await;
    let db = inspect::database(&system).await;
    let in_backup = inspect::events(&db, "page\\_viewed").await.rows;
    assert!(in_backup < count, "all {count} are in the backup");
    let started = Instant::now();
    system.start_programs().await;
    viewed(&db, count, CATCH_UP_TIMEOUT).await;
    println!(
        "backed up in {took:.1?}, restored in {restored:.1?} with {in_backup} of {count} events, the rest re-read {:.1?} after the start",
        started.elapsed()
    );
    let total = system.api.get("/events?event=page_viewed&limit=1").await.expect(200)["pagination"]["total"].clone();
    assert_eq!(total, json!(count), "the exact counter");

    // Mails sent before the backup are recorded as sent. Those sent after it are sent again, with the same message IDs.
    let shop_mails = async |to: &str, count: usize| {
        eventually(CATCH_UP_TIMEOUT, async || match mails::to(&system.mailbox, to).len() {
            received if received == count => Ok(()),
            received => Err(format!("{received} mails to {to}")),
        })
        .await;
    };
    shop_mails(&late, 2).await;
    inspect::until_drained(&system, &db, CATCH_UP_TIMEOUT).await;
    shop_mails(&early, 1).await;
    shop_mails(&late, 2).await;
    assert_eq!(mails::copies(&system.mailbox).len(), messages, "a message was sent under a new ID");
    assert_eq!(inspect::ledger(&db).await.len(), messages);
    assert_eq!(user_count(&db).await, known);
    assert_eq!(inspect::dead_letters(&system).await, 0, "there are dead letters");
    viewed(&db, count, CATCH_UP_TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_programs_use_a_broker_that_lost_its_disk() {
    let mut system = System::start().await;
    Shop::open(&system, 2).await;
    let db = inspect::database(&system).await;
    let mut count = views(&system, 10).await;
    viewed(&db, count, CATCH_UP_TIMEOUT).await;
    system.nats.kill().await;
    system.nats.start_without_data().await;

    let back = Instant::now();
    count += view_accepted(&system).await;
    let accepted = back.elapsed();
    count += views(&system, 20).await;
    viewed(&db, count, TAKEOVER_TIMEOUT).await;
    println!("accepted {accepted:.1?} after the broker's return, recorded after {:.1?}", back.elapsed());
    let late = sign_up(&system, "late").await;
    system.mail_to(&late, TAKEOVER_TIMEOUT).await;
    inspect::until_drained(&system, &db, TAKEOVER_TIMEOUT).await;
    assert!(mails::copies(&system.mailbox).values().all(|copies| *copies == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_backup_works_with_a_lost_broker() {
    let mut system = System::start().await;
    Shop::open(&system, 2).await;
    let db = inspect::database(&system).await;
    let in_backup = views(&system, 10).await;
    viewed(&db, in_backup, CATCH_UP_TIMEOUT).await;
    let dir = system.dir().join("backup");
    done("backup", &system, &dir).await;
    let lost = views(&system, 5).await;
    viewed(&db, in_backup + lost, CATCH_UP_TIMEOUT).await;
    system.stop_programs().await;
    tokio::join!(system.postgres.empty(), system.nats.kill());
    system.nats.start_without_data().await;
    done("restore", &system, &dir).await;
    system.start_programs().await;

    let db = inspect::database(&system).await;
    viewed(&db, in_backup, CATCH_UP_TIMEOUT).await;
    let more = views(&system, 10).await;
    viewed(&db, in_backup + more, CATCH_UP_TIMEOUT).await;
    let mail = sign_up(&system, "late").await;
    system.mail_to(&mail, CATCH_UP_TIMEOUT).await;
    inspect::until_drained(&system, &db, CATCH_UP_TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_broker_reuses_sequence_numbers_without_dropping_new_items() {
    let mut system = System::start().await;
    let db = inspect::database(&system).await;
    let mut count = views(&system, 10).await;
    viewed(&db, count, CATCH_UP_TIMEOUT).await;
    system.nats.stop().await;
    let older = system.nats.copy_data();
    system.nats.start_again().await;
    count += view_accepted(&system).await + views(&system, 20).await;
    viewed(&db, count, CATCH_UP_TIMEOUT).await;

    system.nats.kill().await;
    system.nats.start_with_data(&older).await;
    count += view_accepted(&system).await + views(&system, 40).await;
    let sent = Instant::now();
    viewed(&db, count, TAKEOVER_TIMEOUT).await;
    println!("recorded {:.1?} after the last was accepted", sent.elapsed());
}
