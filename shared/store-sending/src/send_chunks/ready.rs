//! Queues with due messages, and how many are due.

use std::collections::BTreeMap;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use tokio_postgres::Row;

use crate::messages::{channel, lane};
use database::StoreError;
use database::due::{self, DueColumn};
use database::jumps::DueBy;
use domain::message::{Channel, Lane, Queue};

const DUE: DueColumn = DueColumn { table: "send_chunk", column: "due_at" };
/// The oldest due chunks that one poll reads before it probes each queue.
const WINDOW: i64 = 5_000;

fn queue(row: &Row) -> Result<Queue, StoreError> {
    Ok(Queue {
        project: row.try_get("project_id")?,
        channel: channel(row.try_get("channel")?)?,
        lane: lane(row.try_get("lane")?)?,
    })
}

/// Returns the queues with due chunks. Takes no locks.
///
/// Reads the [`WINDOW`] oldest due chunks. If there are more, it also probes each queue of each project, so that one
/// project's backlog hides no other queue.
pub async fn queues(db: &impl GenericClient, due: impl Into<DueBy>) -> Result<Vec<Queue>, StoreError> {
    let DueBy { now, held } = due.into();
    let sql = "SELECT project_id, channel, lane, count(*) AS count FROM (SELECT project_id, channel, lane \
               FROM send_chunk WHERE due_at <= $1 ORDER BY due_at LIMIT $2) AS due GROUP BY project_id, channel, lane";
    let (mut found, mut read) = (Vec::new(), 0);
    for row in db.query(&db.prepare_cached(sql).await?, &[&held, &WINDOW]).await? {
        found.push(queue(&row)?);
        read += row.try_get::<_, i64>("count")?;
    }
    if read >= WINDOW {
        let sql = "SELECT p.project_id, c.channel, l.lane FROM project p CROSS JOIN unnest($2::text[]) AS c (channel) \
                   CROSS JOIN unnest($3::text[]) AS l (lane) CROSS JOIN LATERAL (SELECT 1 AS one FROM send_chunk s \
                   WHERE s.project_id = p.project_id AND s.channel = c.channel AND s.lane = l.lane AND s.due_at <= $1 LIMIT 1) AS due";
        let channels: Vec<&str> = Channel::ALL.iter().map(|channel| channel.as_str()).collect();
        let lanes: Vec<&str> = Lane::ALL.iter().map(|lane| lane.as_str()).collect();
        for row in db.query(&db.prepare_cached(sql).await?, &[&held, &channels, &lanes]).await? {
            found.push(queue(&row)?);
        }
    }
    if held < now {
        let sql = "SELECT DISTINCT project_id, channel, lane FROM send_chunk \
                   WHERE due_at > $1 AND due_at <= $2 AND (due_at <= created_at OR is_begun)";
        for row in db.query(&db.prepare_cached(sql).await?, &[&held, &now]).await? {
            found.push(queue(&row)?);
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Due messages of a channel and lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    pub messages: i64,
    /// When the oldest of them became due.
    pub oldest: Timestamp,
}

/// Returns the due messages by channel and lane.
pub async fn backlog(
    db: &impl GenericClient,
    now: Timestamp,
) -> Result<BTreeMap<(Channel, Lane), Backlog>, StoreError> {
    let sql = "SELECT channel, lane, sum(size)::bigint AS messages, min(due_at) AS oldest FROM send_chunk \
               WHERE due_at <= $1 GROUP BY channel, lane";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&now]).await?;
    let backlog = |row: &Row| {
        let key = (channel(row.try_get("channel")?)?, lane(row.try_get("lane")?)?);
        Ok((key, Backlog { messages: row.try_get("messages")?, oldest: row.try_get("oldest")? }))
    };
    rows.iter().map(backlog).collect()
}

/// Returns when the oldest due chunk became due or, if none is due, when the next one will be.
pub async fn oldest(db: &impl GenericClient) -> Result<Option<Timestamp>, StoreError> {
    due::oldest(db, DUE).await
}

/// Counts up to `max` chunks that became due before a time.
pub async fn overdue(db: &impl GenericClient, before: Timestamp, max: i64) -> Result<i64, StoreError> {
    due::overdue(db, DUE, before, max).await
}
