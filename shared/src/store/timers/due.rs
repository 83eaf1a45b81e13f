//! Timers that fell due, on their way to the broker.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;

use crate::ids::ProjectId;
use crate::store::StoreError;

/// A timer to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueTimer {
    pub run: Uuid,
    pub wait_seq: i32,
    /// Of the ingest stream.
    pub partition: i16,
    /// When the wait ended.
    pub due_at: Timestamp,
}

/// Projects with due timers, some of them where there are many. No locks: a distributed store refuses them here.
pub async fn projects(db: &impl GenericClient, now: Timestamp, most: i64) -> Result<Vec<ProjectId>, StoreError> {
    let statement = db.prepare_cached("SELECT DISTINCT project_id FROM timer WHERE due_at <= $1 LIMIT $2").await?;
    db.query(&statement, &[&now, &most]).await?.iter().map(|r| Ok(r.try_get(0)?)).collect()
}

/// Takes a project's due timers, earliest first, by making them due again at `again`: should the publishing fail, or
/// whoever took them die, somebody else repeats it then.
pub async fn take(
    db: &impl GenericClient,
    project: ProjectId,
    now: Timestamp,
    again: Timestamp,
    most: i64,
) -> Result<Vec<DueTimer>, StoreError> {
    let sql = "WITH due AS (SELECT run_id, due_at FROM timer WHERE project_id = $1 AND due_at <= $2 \
               ORDER BY due_at LIMIT $4 FOR UPDATE SKIP LOCKED) \
               UPDATE timer t SET due_at = $3 FROM due WHERE t.project_id = $1 AND t.run_id = due.run_id \
               RETURNING t.run_id, t.wait_seq, t.partition, due.due_at";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&project, &now, &again, &most]).await?;
    let mut timers = Vec::with_capacity(rows.len());
    for row in rows {
        timers.push(DueTimer {
            run: row.try_get(0)?,
            wait_seq: row.try_get(1)?,
            partition: row.try_get(2)?,
            due_at: row.try_get(3)?,
        });
    }
    timers.sort_by_key(|t| (t.due_at, t.run));
    Ok(timers)
}

/// Forgets timers that the broker has; one that was set anew since then stays.
pub async fn delete(db: &impl GenericClient, project: ProjectId, published: &[DueTimer]) -> Result<u64, StoreError> {
    let runs: Vec<Uuid> = published.iter().map(|t| t.run).collect();
    let waits: Vec<i32> = published.iter().map(|t| t.wait_seq).collect();
    let sql = "WITH gone AS (SELECT t.run_id FROM unnest($2::uuid[], $3::int[]) AS v (run_id, wait_seq) \
               JOIN timer t ON t.run_id = v.run_id AND t.wait_seq = v.wait_seq WHERE t.project_id = $1 \
               ORDER BY t.run_id FOR UPDATE OF t) \
               DELETE FROM timer t USING gone WHERE t.project_id = $1 AND t.run_id = gone.run_id";
    let statement = db.prepare_cached(sql).await?;
    Ok(db.execute(&statement, &[&project, &runs, &waits]).await?)
}
