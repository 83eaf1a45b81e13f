//! Leases of begun chunks: which clock decides when they end, and what a worker does when they do.

use std::time::Duration;

use domain::message::Lane;
use jiff::SignedDuration;
use kernel::clock::Clock;
use kernel::ids;
use serde_json::json;
use store_sending::messages::insert::NewMessage;
use store_sending::send_chunks::begin::{TakeRequest, TakenMembers, count, take};
use testkit::{TestDatabase, TestMailbox, eventually, eventually_true};
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::fixture::{Fixture, SOON};

const LEASE: Duration = Duration::from_secs(90);

/// Points the project's mail at a server that accepts connections and never answers; returns a message.
async fn hangs(fixture: &Fixture) -> NewMessage {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    fixture.configure(listener.local_addr().unwrap().port(), json!({}), None).await;
    tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            open.push(listener.accept().await.unwrap());
        }
    });
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    fixture.message(ann)
}

fn another(fixture: &Fixture, like: &NewMessage) -> NewMessage {
    NewMessage { lane: like.lane, ..fixture.message(like.user_id) }
}

async fn ambiguous(fixture: &Fixture, message: &NewMessage) -> i32 {
    fixture.row(message.id).await.unwrap().ambiguous
}

/// Waits until the worker takes over expired leases, which it does not do just after its start.
async fn takes_over(fixture: &Fixture, like: &NewMessage) {
    let lost = NewMessage { lane: Lane::Direct, ..another(fixture, like) };
    fixture.insert_begun(std::slice::from_ref(&lost), fixture.clock.now() - Duration::from_mins(1)).await;
    eventually_true("a lease is taken over", SOON, async || ambiguous(fixture, &lost).await == 1).await;
}

/// Queues a message and waits until a worker begins it. By then the worker has skipped begun chunks of the same queue.
async fn begins(fixture: &Fixture, message: &NewMessage) {
    fixture.queue(std::slice::from_ref(message)).await;
    eventually_true("it is begun", SOON, async || fixture.row(message.id).await.unwrap().is_begun).await;
}

/// Takes due messages with a clock that is ahead, without and with takeover, and checks [`count`] against both.
async fn take_by(fixture: &Fixture, like: &NewMessage, ahead: SignedDuration) -> TakenMembers {
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let due = fixture.clock.now() + ahead;
    let want = TakeRequest { queue: like.queue(), max: 10, from: None, take_over: Some(&[]) };
    let without = TakeRequest { take_over: None, ..want };
    let counts = [count(&tx, without, due.into()).await.unwrap(), count(&tx, want, due.into()).await.unwrap()];
    assert_eq!(take(&tx, without, due).await.unwrap(), TakenMembers::default());
    let taken = take(&tx, want, due).await.unwrap();
    assert_eq!(counts, [0, taken.in_doubt.len()]);
    taken
}

#[tokio::test]
async fn lease_follows_the_databases_clock() {
    let mut fixture = Fixture::new().await;
    let message = hangs(&fixture).await;
    let right = fixture.clock.clone();
    for hours in [-1, 1] {
        fixture.clock = Clock::manual(right.now() + SignedDuration::from_hours(hours));
        let message = NewMessage { id: ids::fresh(right.now_ms()), ..message.clone() };
        fixture.insert_begun(std::slice::from_ref(&message), fixture.clock.now() + LEASE).await;
        fixture.clock = right.clone();
        assert_eq!(take_by(&fixture, &message, SignedDuration::ZERO).await, TakenMembers::default());
        assert_eq!(take_by(&fixture, &message, SignedDuration::from_hours(2)).await, TakenMembers::default());
        fixture.bring_forward(message.id).await;
        assert_eq!(take_by(&fixture, &message, SignedDuration::from_secs(1)).await.in_doubt, [message.id]);
        let sql = "DELETE FROM send_chunk";
        fixture.store.connection().await.unwrap().execute(sql, &[]).await.unwrap();
    }
}

#[tokio::test]
async fn live_leases_survive_a_jump_of_the_databases_clock() {
    let database = TestDatabase::create().await;
    let client = database.client().await;
    let name: String = client.query_one("SELECT current_database()", &[]).await.unwrap().get(0);
    let sql = format!(
        "CREATE SCHEMA moved; CREATE TABLE moved.clock AS SELECT interval '0' AS ahead; \
         CREATE FUNCTION moved.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS \
         'SELECT pg_catalog.clock_timestamp() + (SELECT ahead FROM moved.clock)'; \
         CREATE FUNCTION moved.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS \
         'SELECT pg_catalog.statement_timestamp() + (SELECT ahead FROM moved.clock)'; \
         ALTER DATABASE {name} SET search_path = public, moved, pg_catalog"
    );
    client.batch_execute(&sql).await.unwrap();
    let mut fixture = Fixture::on(database.config(), Some(database)).await;
    let called = hangs(&fixture).await;
    fixture.run().await;
    takes_over(&fixture, &called).await;
    // The state while another worker is calling.
    fixture.insert_begun(std::slice::from_ref(&called), fixture.clock.now() + LEASE).await;
    for minutes in [5, 60, 600] {
        let sql = format!("UPDATE moved.clock SET ahead = interval '{minutes} minutes'");
        client.batch_execute(&sql).await.unwrap();
        fixture.store.synchronize(&fixture.clock).await.unwrap();
        begins(&fixture, &another(&fixture, &called)).await;
        assert_eq!(ambiguous(&fixture, &called).await, 0, "{minutes} minutes");
    }
}

#[tokio::test]
async fn worker_takes_over_no_chunk_that_it_is_sending() {
    let mut fixture = Fixture::new().await;
    fixture.clock = Clock::manual(fixture.clock.now());
    let called = hangs(&fixture).await;
    fixture.run().await;
    takes_over(&fixture, &called).await;
    begins(&fixture, &called).await;
    fixture.clock.advance(2 * LEASE);
    let sql = "UPDATE send_chunk SET due_at = now() - interval '1 second' WHERE is_begun";
    fixture.store.connection().await.unwrap().execute(sql, &[]).await.unwrap();
    begins(&fixture, &another(&fixture, &called)).await;
    assert_eq!(ambiguous(&fixture, &called).await, 0);
}

#[tokio::test]
async fn message_whose_lease_nearly_ended_is_requeued_without_a_call() {
    let (mut fixture, mailbox) = (Fixture::new().await, TestMailbox::start().await);
    fixture.clock = Clock::manual(fixture.clock.now());
    fixture.configure(mailbox.port(), json!({}), None).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    fixture.run().await;
    // The data for a direct message is read after its begin is committed.
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    tx.execute("LOCK TABLE suppression", &[]).await.unwrap();
    let (id, direct) = fixture.direct(&[ann], &json!({ "subject": "Code", "body": "1" }));
    fixture.send_direct(vec![direct]).await;
    eventually(SOON, async || blocked(&fixture, id).await).await;
    fixture.clock.advance(Duration::from_secs(70));
    tx.rollback().await.unwrap();
    let row = fixture.settled(id, 2).await;
    assert_eq!((row.status.as_str(), row.ambiguous, row.failures), ("sent", 0, 0), "{row:?}");
    assert_eq!(mailbox.wait_for(1, SOON).await.len(), 1);
    fixture.stop().await;
}

/// Returns an error unless a message is begun and the worker waits for the lock.
async fn blocked(fixture: &Fixture, id: Uuid) -> Result<(), String> {
    let is_begun = fixture.row(id).await.is_some_and(|row| row.is_begun);
    let sql = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'suppression'::regclass \
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let waiting: i64 = fixture.store.connection().await.unwrap().query_one(sql, &[]).await.unwrap().get(0);
    if is_begun && waiting > 0 { Ok(()) } else { Err(format!("begun: {is_begun}, {waiting} waiting")) }
}
