//! User imports and their progress, so that an interrupted import can resume.
//!
//! The process that runs an import holds a lease on it. The attempt number distinguishes it from former holders, whose
//! writes match no row.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use database::filter::{PageStart, Total};
use kernel::ids::ProjectId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportStatus {
    Running,
    Completed,
    /// No process holds its lease, and its end was not reached.
    Interrupted,
}

impl ImportStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A problem with a line of the import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineProblem {
    /// Line number, from 1.
    pub line: u64,
    pub field: String,
    /// States what is allowed.
    pub message: String,
}

#[derive(Clone, Debug)]
pub struct UserImport {
    pub id: Uuid,
    /// `ndjson` or `csv`.
    pub format: String,
    /// The next line to process; all lines before it are settled.
    pub next_line: i64,
    /// Digest of the settled lines.
    pub digest: i64,
    /// Number of lines that were published.
    pub imported: i64,
    /// Number of lines that were rejected.
    pub failed: i64,
    /// The first problems.
    pub problems: Vec<LineProblem>,
    /// Number of problems that are not in `problems`.
    pub problems_omitted: i64,
    pub attempt: i32,
    pub lease_until: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub completed_at: Option<Timestamp>,
}

impl UserImport {
    pub fn status(&self, now: Timestamp) -> ImportStatus {
        if self.lease_until.is_some_and(|until| until > now) {
            ImportStatus::Running
        } else if self.completed_at.is_some() {
            ImportStatus::Completed
        } else {
            ImportStatus::Interrupted
        }
    }
}

fn from_row(row: &Row) -> Result<UserImport, StoreError> {
    let problems: Value = row.try_get("problems")?;
    Ok(UserImport {
        id: row.try_get("id")?,
        format: row.try_get("format")?,
        next_line: row.try_get("next_line")?,
        digest: row.try_get("digest")?,
        imported: row.try_get("imported")?,
        failed: row.try_get("failed")?,
        problems: serde_json::from_value(problems).map_err(|e| StoreError::Corrupt(format!("user_import: {e}")))?,
        problems_omitted: row.try_get("problems_omitted")?,
        attempt: row.try_get("attempt")?,
        lease_until: row.try_get("lease_until")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        completed_at: row.try_get("completed_at")?,
    })
}

/// Creates an import without a holder unless it exists; locks and returns it.
pub async fn ensure(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
    (format, digest): (&str, i64),
    now: Timestamp,
) -> Result<UserImport, StoreError> {
    let insert = "INSERT INTO user_import (project_id, id, format, digest, created_at, updated_at) \
                  VALUES ($1, $2, $3, $4, $5, $5) ON CONFLICT (project_id, id) DO NOTHING";
    tx.execute(&tx.prepare_cached(insert).await?, &[&project, &id, &format, &digest, &now]).await?;
    let sql = "SELECT id, format, next_line, digest, imported, failed, problems, problems_omitted, attempt, \
               lease_until, created_at, updated_at, completed_at FROM user_import WHERE project_id = $1 AND id = $2 \
               FOR UPDATE";
    from_row(&tx.query_one(&tx.prepare_cached(sql).await?, &[&project, &id]).await?)
}

/// Counts a project's imports with a current lease.
pub async fn running(db: &impl GenericClient, project: ProjectId, now: Timestamp) -> Result<i64, StoreError> {
    let sql = "SELECT count(*) AS total FROM user_import WHERE project_id = $1 AND lease_until > $2";
    Ok(db.query_one(&db.prepare_cached(sql).await?, &[&project, &now]).await?.try_get("total")?)
}

/// Takes the lease on a locked import until `until`; returns the number of the attempt.
pub async fn acquire_lease(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
    until: Timestamp,
) -> Result<i32, StoreError> {
    let sql = "UPDATE user_import SET attempt = attempt + 1, lease_until = $3 WHERE project_id = $1 AND id = $2 RETURNING attempt";
    Ok(tx.query_one(&tx.prepare_cached(sql).await?, &[&project, &id, &until]).await?.try_get("attempt")?)
}

/// The holder of the lease on an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseHolder {
    pub project: ProjectId,
    pub id: Uuid,
    pub attempt: i32,
}

/// Progress since the last update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportProgress {
    pub next_line: i64,
    pub digest: i64,
    pub imported: i64,
    pub failed: i64,
    /// Problems to append to those already stored.
    pub problems: Vec<LineProblem>,
    pub problems_omitted: i64,
}

/// Records progress and renews the lease; returns false if the import has another holder.
pub async fn advance(
    db: &impl GenericClient,
    holder: LeaseHolder,
    by: &ImportProgress,
    (now, until): (Timestamp, Timestamp),
) -> Result<bool, StoreError> {
    let sql = "UPDATE user_import SET next_line = $4, digest = $5, imported = imported + $6, failed = failed + $7, \
               problems = problems || $8, problems_omitted = problems_omitted + $9, updated_at = $10, lease_until = $11, \
               completed_at = NULL WHERE project_id = $1 AND id = $2 AND attempt = $3";
    let problems = serde_json::to_value(&by.problems).map_err(|e| StoreError::Corrupt(e.to_string()))?;
    let statement = db.prepare_cached(sql).await?;
    let moved = db
        .execute(
            &statement,
            &[
                &holder.project,
                &holder.id,
                &holder.attempt,
                &by.next_line,
                &by.digest,
                &by.imported,
                &by.failed,
                &problems,
                &by.problems_omitted,
                &now,
                &until,
            ],
        )
        .await?;
    Ok(moved == 1)
}

/// Renews the lease; returns false if the import has another holder.
pub async fn renew(db: &impl GenericClient, holder: LeaseHolder, until: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE user_import SET lease_until = $4 WHERE project_id = $1 AND id = $2 AND attempt = $3";
    let statement = db.prepare_cached(sql).await?;
    Ok(db.execute(&statement, &[&holder.project, &holder.id, &holder.attempt, &until]).await? == 1)
}

/// Releases the lease. `completed` states whether the end of the import was reached.
pub async fn release(
    db: &impl GenericClient,
    holder: LeaseHolder,
    completed: bool,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE user_import SET lease_until = NULL, updated_at = $4, \
               completed_at = CASE WHEN $5 THEN coalesce(completed_at, $4) ELSE completed_at END \
               WHERE project_id = $1 AND id = $2 AND attempt = $3";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&holder.project, &holder.id, &holder.attempt, &now, &completed]).await?;
    Ok(())
}

/// Returns the first import that exists among these IDs.
pub async fn find(
    db: &impl GenericClient,
    project: ProjectId,
    candidates: &[Uuid],
) -> Result<Option<UserImport>, StoreError> {
    let sql = "SELECT id, format, next_line, digest, imported, failed, problems, problems_omitted, attempt, \
               lease_until, created_at, updated_at, completed_at FROM user_import WHERE project_id = $1 \
               AND id = ANY($2) ORDER BY array_position($2::uuid[], id) LIMIT 1";
    db.query_opt(&db.prepare_cached(sql).await?, &[&project, &candidates]).await?.as_ref().map(from_row).transpose()
}

/// Returns a page of imports, newest first, and the total.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    start: &PageStart<(Timestamp, Uuid)>,
    limit: i64,
) -> Result<(Vec<UserImport>, Total), StoreError> {
    let sql = "SELECT count(*) AS total FROM user_import WHERE project_id = $1";
    let total = Total::exact(db.query_one(&db.prepare_cached(sql).await?, &[&project]).await?.try_get("total")?);
    let (at, id) = match start {
        PageStart::After(position) => *position,
        PageStart::Offset(_) => (Timestamp::MAX, Uuid::max()),
    };
    let sql = "SELECT id, format, next_line, digest, imported, failed, problems, problems_omitted, attempt, \
               lease_until, created_at, updated_at, completed_at FROM user_import WHERE project_id = $1 \
               AND (created_at, id) < ($2, $3) ORDER BY created_at DESC, id DESC OFFSET $4 LIMIT $5";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &at, &id, &start.offset(), &limit]).await?;
    Ok((rows.iter().map(from_row).collect::<Result<_, _>>()?, total))
}

/// Deletes imports that were last updated before `before`; returns how many.
pub async fn forget(db: &impl GenericClient, before: Timestamp) -> Result<u64, StoreError> {
    Ok(db.execute("DELETE FROM user_import WHERE updated_at < $1", &[&before]).await?)
}
