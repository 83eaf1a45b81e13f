//! Removal of messages that are past their project's retention, also from the counters. A message that is still to be sent, or
//! is claimed, stays however old it is.

use std::collections::HashSet;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use uuid::Uuid;

use super::insert;
use crate::ids::{self, ProjectId};
use crate::store::StoreError;
use crate::store::months::{self, Month};

/// Rows removed at once.
pub const SLICE: i64 = 5_000;
/// A key of Postgres's advisory locks: "rkretmsg" in ASCII.
const LOCK: i64 = 0x726b_7265_746d_7367;
const IS_SETTLED: &str = "status <> 'queued' AND NOT claimed";

/// Takes the lock on removal for this connection, until [`end`]. False where another connection holds it.
pub async fn begin(db: &impl GenericClient) -> Result<bool, StoreError> {
    Ok(db.query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK]).await?.try_get(0)?)
}

pub async fn end(db: &impl GenericClient) -> Result<(), StoreError> {
    db.execute("SELECT pg_advisory_unlock($1)", &[&LOCK]).await?;
    Ok(())
}

/// The months that hold messages from before a time, oldest first.
pub async fn months(db: &impl GenericClient, before: Timestamp) -> Result<Vec<Month>, StoreError> {
    let last = Month::at(before.as_millisecond());
    let months = months::of_table(db, "message").await?;
    Ok(months.into_iter().rev().take_while(|month| *month <= last).collect())
}

/// Removes at most [`SLICE`] of a project's oldest settled messages of a month from before a time; returns how many they were.
pub async fn remove_slice(
    tx: &Transaction<'_>,
    project: ProjectId,
    month: Month,
    before: Timestamp,
) -> Result<i64, StoreError> {
    let (before, within) = (ids::lower_bound(before.as_millisecond()), month.condition("id"));
    let sql = format!(
        "SELECT id FROM message WHERE project_id = $1 AND id < $2 AND {within} AND {IS_SETTLED} ORDER BY id OFFSET {SLICE} LIMIT 1"
    );
    let row = tx.query_opt(&month.prepare(tx, &sql).await?, &[&project, &before]).await?;
    let end: Uuid = row.map(|row| row.try_get(0)).transpose()?.unwrap_or(before);
    let sql = format!("DELETE FROM message WHERE project_id = $1 AND id < $2 AND {within} AND {IS_SETTLED}");
    let removed = tx.execute(&month.prepare(tx, &sql).await?, &[&project, &end]).await?;
    let removed = i64::try_from(removed).unwrap_or(i64::MAX);
    insert::count(tx, project, insert::any_lane(), -removed).await?;
    Ok(removed)
}

/// Whether no message in a partition can be sent any more, not even by a manual retry. Reads all of it if so.
pub async fn is_over(tx: &Transaction<'_>, partition: &str) -> Result<bool, StoreError> {
    tx.batch_execute("SET LOCAL statement_timeout = '10min'").await?;
    let sql = format!("SELECT NOT EXISTS (SELECT FROM {partition} WHERE NOT ({IS_SETTLED}) OR dead)");
    Ok(tx.query_one(&sql, &[]).await?.try_get(0)?)
}

/// Subtracts the messages in a detached partition from the counters of these projects.
pub async fn take_counts(tx: &Transaction<'_>, table: &str, projects: &HashSet<ProjectId>) -> Result<(), StoreError> {
    tx.batch_execute("SET LOCAL statement_timeout = '10min'").await?;
    let sql = format!("SELECT project_id, count(*) FROM {table} GROUP BY project_id ORDER BY project_id");
    for row in tx.query(&sql, &[]).await? {
        let (project, count): (ProjectId, i64) = (row.try_get(0)?, row.try_get(1)?);
        if projects.contains(&project) {
            insert::count(tx, project, insert::any_lane(), -count).await?;
        }
    }
    Ok(())
}
