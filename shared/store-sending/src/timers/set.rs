//! Sets timers in the recording transaction.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use tokio_postgres::Statement;
use uuid::Uuid;

use database::StoreError;
use database::by_project::{self, ByProject};
use kernel::ids::ProjectId;

/// The end of a run's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewTimer {
    pub project: ProjectId,
    pub run: Uuid,
    pub wait_seq: i32,
    /// The ingest partition of the user's own items.
    pub partition: i16,
    pub due_at: Timestamp,
}

/// Sets timers. A run has one timer: setting one replaces an earlier one.
pub async fn set(tx: &Transaction<'_>, timers: &[NewTimer]) -> Result<(), StoreError> {
    if timers.is_empty() {
        return Ok(());
    }
    let projects: Vec<ProjectId> = timers.iter().map(|t| t.project).collect();
    let runs: Vec<Uuid> = timers.iter().map(|t| t.run).collect();
    let waits: Vec<i32> = timers.iter().map(|t| t.wait_seq).collect();
    let partitions: Vec<i16> = timers.iter().map(|t| t.partition).collect();
    let due: Vec<Timestamp> = timers.iter().map(|t| t.due_at).collect();
    let sql = "INSERT INTO timer (project_id, run_id, wait_seq, partition, due_at) \
               SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::smallint[], $5::timestamptz[]) \
               ON CONFLICT (project_id, run_id) DO UPDATE SET wait_seq = excluded.wait_seq, partition = excluded.partition, due_at = excluded.due_at";
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(&statement, &[&projects, &runs, &waits, &partitions, &due]).await?;
    Ok(())
}

/// Removes the timers of runs that no longer wait.
pub async fn cancel(tx: &Transaction<'_>, runs: &[(ProjectId, Uuid)]) -> Result<(), StoreError> {
    let sql = ByProject::new(
        "WITH gone AS (SELECT t.project_id, t.run_id FROM unnest($1::uuid[], $2::uuid[]) AS v(p, i) JOIN timer t \
         ON t.project_id = v.p AND t.run_id = v.i ORDER BY 1, 2 FOR UPDATE OF t) DELETE FROM timer t USING gone \
         WHERE t.project_id = gone.project_id AND t.run_id = gone.run_id",
        &["v.p", "gone.project_id"],
    );
    let remove = async |statement: Statement, part: &[(ProjectId, Uuid)]| {
        let (projects, ids): (Vec<ProjectId>, Vec<Uuid>) = part.iter().copied().unzip();
        Ok(tx.execute(&statement, &[&projects, &ids]).await?)
    };
    by_project::each(tx, runs, |run| run.0, sql, remove).await?;
    Ok(())
}
