//! Due timers, to be published to the broker.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;

use database::StoreError;
use database::due::{self, DueColumn};
use kernel::ids::ProjectId;

const DUE: DueColumn = DueColumn { table: "timer", column: "due_at" };

/// A timer to publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueTimer {
    pub run: Uuid,
    pub wait_seq: i32,
    /// The partition of the ingest stream.
    pub partition: i16,
    /// When the wait ended.
    pub due_at: Timestamp,
}

/// Returns the earliest due time of a timer, past or future.
pub async fn oldest(db: &impl GenericClient) -> Result<Option<Timestamp>, StoreError> {
    due::oldest(db, DUE).await
}

/// Returns up to `max` projects with due timers, the project with the oldest due timer first.
pub async fn projects(db: &impl GenericClient, now: Timestamp, max: i64) -> Result<Vec<ProjectId>, StoreError> {
    due::projects(db, DUE, now, max).await
}

/// Counts up to `max` timers that fell due before a time and have not been taken since.
pub async fn overdue(db: &impl GenericClient, before: Timestamp, max: i64) -> Result<i64, StoreError> {
    due::overdue(db, DUE, before, max).await
}

/// Takes a project's due timers, earliest first, and makes them due again at `retry_at`: if the scheduler
/// fails to publish them or crashes, they are taken again then.
pub async fn claim(
    db: &mut impl GenericClient,
    project: ProjectId,
    now: Timestamp,
    retry_at: Timestamp,
    max: i64,
) -> Result<Vec<DueTimer>, StoreError> {
    let tx = db.transaction().await?;
    let sql = "SELECT run_id, wait_seq, partition, due_at FROM timer WHERE project_id = $1 AND due_at <= $2 \
               ORDER BY due_at LIMIT $3 FOR UPDATE SKIP LOCKED";
    let statement = tx.prepare_cached(sql).await?;
    let rows = tx.query(&statement, &[&project, &now, &max]).await?;
    let mut timers = Vec::with_capacity(rows.len());
    for row in rows {
        timers.push(DueTimer {
            run: row.try_get("run_id")?,
            wait_seq: row.try_get("wait_seq")?,
            partition: row.try_get("partition")?,
            due_at: row.try_get("due_at")?,
        });
    }
    if timers.is_empty() {
        return Ok(timers);
    }
    let runs: Vec<Uuid> = timers.iter().map(|t| t.run).collect();
    let statement =
        tx.prepare_cached("UPDATE timer SET due_at = $3 WHERE project_id = $1 AND run_id = ANY($2)").await?;
    tx.execute(&statement, &[&project, &runs, &retry_at]).await?;
    tx.commit().await?;
    timers.sort_by_key(|t| (t.due_at, t.run));
    Ok(timers)
}

/// Deletes published timers that were taken until `retry_at`. A timer that was set again since then stays, even for the
/// same wait, because its due time differs.
pub async fn delete(
    db: &impl GenericClient,
    project: ProjectId,
    published: &[DueTimer],
    retry_at: Timestamp,
) -> Result<u64, StoreError> {
    let runs: Vec<Uuid> = published.iter().map(|t| t.run).collect();
    let waits: Vec<i32> = published.iter().map(|t| t.wait_seq).collect();
    let sql = "WITH gone AS (SELECT t.run_id FROM unnest($2::uuid[], $3::int[]) AS v (run_id, wait_seq) \
               JOIN timer t ON t.run_id = v.run_id AND t.wait_seq = v.wait_seq WHERE t.project_id = $1 \
               AND t.due_at = $4 ORDER BY t.run_id FOR UPDATE OF t) \
               DELETE FROM timer t USING gone WHERE t.project_id = $1 AND t.run_id = gone.run_id";
    let statement = db.prepare_cached(sql).await?;
    Ok(db.execute(&statement, &[&project, &runs, &waits, &retry_at]).await?)
}
