//! Checks by SQL and the broker's monitor whether anything is in flight, and reads the ledger.

use std::collections::BTreeMap;
use std::time::Duration;

use bus::Names;
use serde_json::Value;
use testkit::eventually;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::System;
use crate::system::connect;

/// Members of chunks whose messages are not settled.
const PENDING: &str = "WITH pending AS (SELECT c.project_id, m.id FROM send_chunk c, unnest(c.members) WITH ORDINALITY AS m (id, n) \
                      WHERE NOT c.is_audience AND get_bit(c.done, (m.n - 1)::int) = 0) ";

/// Contradictions between the ledger and the queue, each with the statement that counts them: 0 at any time, also under load, since a
/// statement reads one snapshot.
const QUEUE_INCONSISTENCIES: [(&str, &str); 2] = [
    (
        "queued messages that are not in exactly one chunk",
        "SELECT count(*) AS total FROM (SELECT FROM message AS q \
         LEFT JOIN pending AS u ON (u.project_id, u.id) = (q.project_id, q.id) \
         WHERE q.status = 'queued' GROUP BY q.project_id, q.id HAVING count(u.id) <> 1) AS wrong",
    ),
    (
        "messages that are pending in more than one chunk",
        "SELECT count(*) AS total FROM (SELECT FROM pending GROUP BY project_id, id HAVING count(*) > 1) AS wrong",
    ),
];

/// Numbers of pending items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Rows that were not published to the broker yet.
    pub outbox: i64,
    /// Timers that are due, and runs that wait past their time.
    pub timers_past_due: i64,
    pub runs_past_due: i64,
    /// Messages without a final status.
    pub messages_queued: i64,
    /// Chunks with messages or recipients that are not sent yet.
    pub send_chunks: i64,
    /// Messages of the send stream that delivery has not acknowledged.
    pub send_stream: u64,
}

/// A row of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRow {
    pub id: Uuid,
    pub status: String,
    pub reason: Option<String>,
    /// Calls with an unknown outcome.
    pub ambiguous: u32,
}

/// Opens a plain connection to the system's database.
pub async fn database(system: &System) -> Client {
    connect(&system.database_url).await
}

/// Makes chunks due now whose time may be hours away. Skips chunks that wait for their channel's settings, and locked ones: waiting for
/// locks in another order than a worker does could deadlock.
pub async fn make_retries_due(db: &Client) {
    let sql = "WITH later AS (SELECT project_id, id FROM send_chunk WHERE due_at > statement_timestamp() AND NOT is_begun AND NOT is_held \
               FOR NO KEY UPDATE SKIP LOCKED) \
               UPDATE send_chunk AS c SET due_at = statement_timestamp() FROM later AS l WHERE (c.project_id, c.id) = (l.project_id, l.id)";
    db.execute(sql, &[]).await.expect("the chunks");
}

/// Counts the contradictions between the ledger and the queue.
pub async fn queue_inconsistencies(db: &Client) -> BTreeMap<&'static str, i64> {
    let mut found = BTreeMap::new();
    for (what, sql) in QUEUE_INCONSISTENCIES {
        let row = db.query_one(&format!("{PENDING}{sql}"), &[]).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        found.insert(what, row.get("total"));
    }
    found
}

pub async fn backlog(system: &System, db: &Client) -> Backlog {
    let sql = "SELECT (SELECT count(*) FROM outbox) AS outbox, \
               (SELECT count(*) FROM timer WHERE due_at <= now()) AS timers, \
               (SELECT count(*) FROM run WHERE status = 'waiting' AND due_at <= now()) AS runs, \
               (SELECT count(*) FROM message WHERE status = 'queued') AS messages, \
               (SELECT count(*) FROM send_chunk) AS chunks";
    let row = db.query_one(sql, &[]).await.expect("the backlog");
    Backlog {
        outbox: row.get("outbox"),
        timers_past_due: row.get("timers"),
        runs_past_due: row.get("runs"),
        messages_queued: row.get("messages"),
        send_chunks: row.get("chunks"),
        send_stream: stream_messages(&system.nats.monitor_url(), &Names::new("").send_stream()).await,
    }
}

/// Waits until nothing is in flight; panics with what still is at the timeout.
pub async fn until_drained(system: &System, db: &Client, within: Duration) {
    let probe = async || {
        let backlog = backlog(system, db).await;
        if backlog == Backlog::default() { Ok(()) } else { Err(backlog) }
    };
    eventually(within, probe).await;
}

/// Returns the number of dead letters ever stored in the stream, including those that the scheduler has moved out of it.
pub async fn dead_letters(system: &System) -> u64 {
    stream_state(&system.nats.monitor_url(), &Names::new("").dead_stream(), "last_seq").await
}

/// Returns the number of messages in a stream, by the broker's monitor.
///
/// Panics if the monitor does not know the stream.
pub async fn stream_messages(monitor_url: &str, stream: &str) -> u64 {
    stream_state(monitor_url, stream, "messages").await
}

async fn stream_state(monitor_url: &str, stream: &str, field: &str) -> u64 {
    let url = format!("{monitor_url}/jsz?streams=true");
    let report: Value = reqwest::get(url).await.expect("NATS's monitor").json().await.expect("JSON");
    let streams = report["account_details"][0]["stream_detail"].as_array().cloned().unwrap_or_default();
    let found = streams.iter().find(|one| one["name"] == *stream);
    found
        .and_then(|one| one["state"][field].as_u64())
        .unwrap_or_else(|| panic!("stream {stream} is missing in {report}"))
}

/// Describes the consumers of a stream that have pending or unacknowledged messages, one line each, by the broker's monitor.
pub async fn lagging_consumers(monitor_url: &str, stream: &str) -> Vec<String> {
    let url = format!("{monitor_url}/jsz?consumers=true");
    let report: Value = reqwest::get(url).await.expect("NATS's monitor").json().await.expect("JSON");
    let streams = report["account_details"][0]["stream_detail"].as_array().cloned().unwrap_or_default();
    let consumers = streams.iter().filter(|one| one["name"] == *stream);
    let consumers = consumers.flat_map(|one| one["consumer_detail"].as_array().cloned().unwrap_or_default());
    let late = consumers.filter(|one| one["num_pending"] != 0 || one["num_ack_pending"] != 0);
    let line = |one: Value| {
        let describe = |name: &str| format!("{name} {}", one[name]);
        let parts =
            ["name", "num_pending", "num_ack_pending", "num_redelivered", "num_waiting", "delivered", "ack_floor"];
        parts.map(describe).join(" ")
    };
    late.map(line).collect()
}

pub async fn ledger(db: &Client) -> Vec<LedgerRow> {
    let rows = db.query("SELECT id, status, status_reason, ambiguous FROM message", &[]).await.expect("the ledger");
    rows.iter()
        .map(|row| LedgerRow {
            id: row.get("id"),
            status: row.get("status"),
            reason: row.get("status_reason"),
            ambiguous: row.get::<_, i32>("ambiguous").unsigned_abs(),
        })
        .collect()
}

/// Returns the messages in users' inboxes.
pub async fn inbox_message_ids(db: &Client) -> Vec<Uuid> {
    let rows = db.query("SELECT id FROM inbox", &[]).await.expect("the inboxes");
    rows.iter().map(|row| row.get("id")).collect()
}

/// Numbers of stored events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredEvents {
    pub rows: i64,
    pub distinct_ids: i64,
}

impl StoredEvents {
    /// `count` events, without duplicates.
    pub fn each_once(count: i64) -> Self {
        Self { rows: count, distinct_ids: count }
    }
}

/// Counts the stored events with names that match a pattern of LIKE.
pub async fn events(db: &Client, names: &str) -> StoredEvents {
    let sql = "SELECT count(*) AS stored, count(DISTINCT (project_id, id)) AS distinct_ids FROM events \
               WHERE name LIKE $1";
    let row = db.query_one(sql, &[&names]).await.expect("the events");
    StoredEvents { rows: row.get("stored"), distinct_ids: row.get("distinct_ids") }
}
