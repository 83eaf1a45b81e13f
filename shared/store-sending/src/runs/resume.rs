//! Frozen runs, whose wait ended while their automation was inactive. They resume once it is active again, or end if it
//! is deleted.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::timers::set::{self, NewTimer};
use crate::webhook_deliveries::enqueue::{self, RunEvent};
use database::{StoreError, by_project};
use domain::webhook::EXITED;
use kernel::ids::ProjectId;

/// What happens to an automation's frozen runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrozenRunAction {
    /// The automation is active again.
    Resume,
    /// The automation was deleted.
    End,
}

/// An automation with frozen runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrozenAutomation {
    pub project: ProjectId,
    pub automation: Uuid,
    pub action: FrozenRunAction,
}

/// Returns the automations with frozen runs that can resume or end. Skips from one automation with frozen runs to the
/// next, so that the cost depends neither on the number of other automations nor on that of frozen runs.
pub async fn frozen_automations(db: &impl GenericClient) -> Result<Vec<FrozenAutomation>, StoreError> {
    let each = "WITH RECURSIVE frozen AS (\
               (SELECT project_id, automation_id FROM run WHERE status = 'frozen' ORDER BY project_id, automation_id LIMIT 1) \
               UNION ALL SELECT next.project_id, next.automation_id FROM frozen f CROSS JOIN LATERAL (\
               SELECT r.project_id, r.automation_id FROM run r WHERE r.status = 'frozen' \
               AND (r.project_id, r.automation_id) > (f.project_id, f.automation_id) \
               ORDER BY r.project_id, r.automation_id LIMIT 1) AS next) \
               SELECT a.project_id, a.id, a.deleted_at IS NOT NULL AS is_deleted FROM frozen f JOIN automation a \
               ON a.project_id = f.project_id AND a.id = f.automation_id WHERE a.active OR a.deleted_at IS NOT NULL";
    // A distributed store refuses the recursion; there, each shard searches its automations.
    let joined = "SELECT a.project_id, a.id, a.deleted_at IS NOT NULL AS is_deleted FROM automation a \
                  WHERE (a.active OR a.deleted_at IS NOT NULL) AND EXISTS (SELECT FROM run r \
                  WHERE r.project_id = a.project_id AND r.automation_id = a.id AND r.status = 'frozen')";
    let sql = if by_project::is_distributed() { joined } else { each };
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[]).await?;
    let frozen = |row: &Row| {
        let action = if row.try_get("is_deleted")? { FrozenRunAction::End } else { FrozenRunAction::Resume };
        Ok(FrozenAutomation { project: row.try_get("project_id")?, automation: row.try_get("id")?, action })
    };
    rows.iter().map(frozen).collect()
}

/// Returns the automations that were deleted up to `until`.
pub async fn deleted(db: &impl GenericClient, until: Timestamp) -> Result<Vec<(ProjectId, Uuid)>, StoreError> {
    let statement = db.prepare_cached("SELECT project_id, id FROM automation WHERE deleted_at <= $1").await?;
    db.query(&statement, &[&until]).await?.iter().map(|r| Ok((r.try_get("project_id")?, r.try_get("id")?))).collect()
}

/// Ends at most `max` of a deleted automation's runs in progress. Returns how many were found.
pub async fn end(
    tx: &Transaction<'_>,
    project: ProjectId,
    automation: Uuid,
    now: Timestamp,
    max: i64,
) -> Result<usize, StoreError> {
    let sql =
        "SELECT id FROM run WHERE project_id = $1 AND automation_id = $2 AND status IN ('waiting', 'frozen') LIMIT $3";
    let found = tx.query(&tx.prepare_cached(sql).await?, &[&project, &automation, &max]).await?;
    let ids: Vec<Uuid> = found.iter().map(|r| r.try_get("id")).collect::<Result<_, _>>()?;
    if ids.is_empty() {
        return Ok(0);
    }
    // Locked in the order of IDs, as in transactions that advance runs.
    let sql = "SELECT id FROM run WHERE project_id = $1 AND id = ANY($2) AND status IN ('waiting', 'frozen') ORDER BY id FOR UPDATE";
    let locked = tx.query(&tx.prepare_cached(sql).await?, &[&project, &ids]).await?;
    let locked_ids: Vec<Uuid> = locked.iter().map(|r| r.try_get("id")).collect::<Result<_, _>>()?;
    let sql = "UPDATE run SET status = 'exited', reason = 'automation_deleted', due_at = NULL, updated_at = $3, ended_at = $3 \
               WHERE project_id = $1 AND id = ANY($2) RETURNING id, version, user_id";
    let exited = tx.query(&tx.prepare_cached(sql).await?, &[&project, &locked_ids, &now]).await?;
    let events = |row: &Row| {
        Ok(RunEvent {
            project,
            kind: EXITED,
            run: row.try_get("id")?,
            automation,
            version: row.try_get("version")?,
            user_id: row.try_get("user_id")?,
            at: now,
            reason: Some("automation_deleted".to_owned()),
        })
    };
    let events: Vec<RunEvent> = exited.iter().map(events).collect::<Result<_, StoreError>>()?;
    enqueue::for_runs(tx, &events.iter().collect::<Vec<_>>(), now).await?;
    for sql in [
        "DELETE FROM timer WHERE project_id = $1 AND run_id = ANY($2)",
        "DELETE FROM run_listener l USING run r WHERE r.project_id = $1 AND r.id = ANY($2) \
         AND l.project_id = $1 AND l.user_id = r.user_id AND l.run_id = r.id",
    ] {
        tx.execute(&tx.prepare_cached(sql).await?, &[&project, &locked_ids]).await?;
    }
    Ok(ids.len())
}

/// Resumes at most `max` of an automation's frozen runs, those whose waits ended first, with timers that are due at
/// once. Returns how many. Each keeps the end of its wait, which determines which events are too late.
pub async fn resume(
    tx: &Transaction<'_>,
    project: ProjectId,
    automation: Uuid,
    now: Timestamp,
    max: i64,
) -> Result<usize, StoreError> {
    let sql = "WITH frozen AS (SELECT id FROM run WHERE project_id = $1 AND automation_id = $2 AND status = 'frozen' \
               ORDER BY due_at, id LIMIT $4 FOR UPDATE SKIP LOCKED) \
               UPDATE run r SET status = 'waiting', updated_at = $3 FROM frozen \
               WHERE r.project_id = $1 AND r.id = frozen.id RETURNING r.id, r.wait_seq, r.partition, r.due_at";
    let statement = tx.prepare_cached(sql).await?;
    let rows = tx.query(&statement, &[&project, &automation, &now, &max]).await?;
    let mut timers = Vec::with_capacity(rows.len());
    for row in rows {
        let (run, wait_seq, partition) = (row.try_get("id")?, row.try_get("wait_seq")?, row.try_get("partition")?);
        // Timers are published in the order in which the waits ended.
        let due_at = row.try_get::<_, Option<Timestamp>>("due_at")?.map_or(now, |due| due.min(now));
        timers.push(NewTimer { project, run, wait_seq, partition, due_at });
    }
    timers.sort_by_key(|t| t.run);
    set::set(tx, &timers).await?;
    Ok(timers.len())
}
