//! Removes messages that are past their project's retention, and subtracts them from the counters. Queued messages and
//! those of a campaign's occurrence that has not ended are kept, however old they are.

use std::collections::HashSet;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use uuid::Uuid;

use super::insert;
use crate::campaigns::sending::{self, UnfinishedOccurrences};
use database::StoreError;
use database::months::Month;
use database::time_partitions::expired::Expired;
use kernel::clock::from_ms;
use kernel::ids::{self, ProjectId};

/// Maximum number of rows removed at once; the statement contains this number.
pub const SLICE: i64 = 5_000;
/// Key of the advisory lock: "rkretmsg" in ASCII.
const LOCK: i64 = 0x726b_7265_746d_7367;

/// Takes the lock on removal for this connection, until [`end`]. Returns false if another connection holds it.
pub async fn begin(db: &impl GenericClient) -> Result<bool, StoreError> {
    Ok(db.query_one("SELECT pg_try_advisory_lock($1) AS is_locked", &[&LOCK]).await?.try_get("is_locked")?)
}

pub async fn end(db: &impl GenericClient) -> Result<(), StoreError> {
    db.execute("SELECT pg_advisory_unlock($1)", &[&LOCK]).await?;
    Ok(())
}

/// Removes at most [`SLICE`] of a project's oldest settled messages of a month before a time. Returns how many.
pub async fn remove_slice(
    tx: &Transaction<'_>,
    project: ProjectId,
    month: Month,
    before: Timestamp,
) -> Result<i64, StoreError> {
    let before = ids::lower_bound(before.as_millisecond());
    let UnfinishedOccurrences { campaigns, first_ids } = sending::under_way(tx, project).await?;
    let within = month.condition("id");
    let sql = format!(
        "SELECT id FROM message m WHERE project_id = $1 AND id < $2 AND {within} AND status <> 'queued' \
         AND (campaign_id IS NULL OR NOT EXISTS (SELECT FROM unnest($3::uuid[], $4::uuid[]) AS s (campaign, first) \
         WHERE s.campaign = m.campaign_id AND s.first <= m.id)) ORDER BY id OFFSET 5000 LIMIT 1"
    );
    let row = tx.query_opt(&month.prepare(tx, &sql).await?, &[&project, &before, &campaigns, &first_ids]).await?;
    let end: Uuid = row.map(|row| row.try_get("id")).transpose()?.unwrap_or(before);
    let sql = format!(
        "DELETE FROM message m WHERE project_id = $1 AND id < $2 AND {within} AND status <> 'queued' \
         AND (campaign_id IS NULL OR NOT EXISTS (SELECT FROM unnest($3::uuid[], $4::uuid[]) AS s (campaign, first) \
         WHERE s.campaign = m.campaign_id AND s.first <= m.id))"
    );
    let removed = tx.execute(&month.prepare(tx, &sql).await?, &[&project, &end, &campaigns, &first_ids]).await?;
    let removed = i64::try_from(removed).unwrap_or(i64::MAX);
    insert::count(tx, project, insert::any_lane(), -removed).await?;
    Ok(removed)
}

/// Returns whether no message in a partition can still be sent, not even by a replay, and no unfinished campaign
/// occurrence has its rows there. Reads the whole partition if so.
pub async fn is_over(tx: &Transaction<'_>, partition: &Expired) -> Result<bool, StoreError> {
    let times = partition.times_ms();
    if sending::began_within(tx, from_ms(times.start)..from_ms(times.end)).await? {
        return Ok(false);
    }
    tx.batch_execute("SET LOCAL statement_timeout = '10min'").await?;
    let table = partition.name();
    let sql = format!("SELECT NOT EXISTS (SELECT FROM {table} WHERE NOT (status <> 'queued') OR dead) AS is_over");
    Ok(tx.query_one(&sql, &[]).await?.try_get("is_over")?)
}

/// Subtracts the messages in a detached partition from the counters of these projects.
pub async fn subtract_counts(
    tx: &Transaction<'_>,
    table: &str,
    projects: &HashSet<ProjectId>,
) -> Result<(), StoreError> {
    tx.batch_execute("SET LOCAL statement_timeout = '10min'").await?;
    let sql = format!("SELECT project_id, count(*) AS count FROM {table} GROUP BY project_id ORDER BY project_id");
    for row in tx.query(&sql, &[]).await? {
        let (project, count): (ProjectId, i64) = (row.try_get("project_id")?, row.try_get("count")?);
        if projects.contains(&project) {
            insert::count(tx, project, insert::any_lane(), -count).await?;
        }
    }
    Ok(())
}
