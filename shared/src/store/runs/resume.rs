//! Runs whose wait ended while their automation was inactive, and that go on now that it is active again.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use uuid::Uuid;

use crate::ids::ProjectId;
use crate::store::StoreError;
use crate::store::timers::set::{self, NewTimer};

/// Active automations with frozen runs.
pub async fn thawing(db: &impl GenericClient) -> Result<Vec<(ProjectId, Uuid)>, StoreError> {
    let sql = "SELECT a.project_id, a.id FROM automation a WHERE a.active AND EXISTS (SELECT 1 FROM run r \
               WHERE r.project_id = a.project_id AND r.automation_id = a.id AND r.status = 'frozen')";
    let statement = db.prepare_cached(sql).await?;
    db.query(&statement, &[]).await?.iter().map(|r| Ok((r.try_get(0)?, r.try_get(1)?))).collect()
}

/// Lets at most so many of an automation's frozen runs go on, by timers that are due at once; returns how many.
pub async fn resume(
    tx: &Transaction<'_>,
    project: ProjectId,
    automation: Uuid,
    now: Timestamp,
    most: i64,
) -> Result<usize, StoreError> {
    let sql = "WITH frozen AS (SELECT id FROM run WHERE project_id = $1 AND automation_id = $2 AND status = 'frozen' \
               ORDER BY id LIMIT $4 FOR UPDATE SKIP LOCKED) \
               UPDATE run r SET status = 'waiting', due_at = $3, updated_at = $3 FROM frozen \
               WHERE r.project_id = $1 AND r.id = frozen.id RETURNING r.id, r.wait_seq, r.partition";
    let statement = tx.prepare_cached(sql).await?;
    let rows = tx.query(&statement, &[&project, &automation, &now, &most]).await?;
    let mut timers = Vec::with_capacity(rows.len());
    for row in rows {
        let (run, wait_seq, partition) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        timers.push(NewTimer { project, run, wait_seq, partition, due_at: now });
    }
    timers.sort_by_key(|t| t.run);
    set::set(tx, &timers).await?;
    Ok(timers.len())
}
