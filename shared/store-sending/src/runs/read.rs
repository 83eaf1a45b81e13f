//! Reads runs for the API.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use automation::journey::{LogEntry, RunStatus};
use database::StoreError;
use kernel::ids::ProjectId;

/// A run, without its trail.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    pub id: Uuid,
    pub automation: Uuid,
    pub version: i32,
    /// The user's internal ID.
    pub user_id: Uuid,
    pub status: RunStatus,
    /// The path of its current step; empty at the start and the end.
    pub position: String,
    pub reason: Option<String>,
    pub due_at: Option<Timestamp>,
    pub converted_at: Option<Timestamp>,
    /// The trigger: `{id, name, properties, timestamp}`.
    pub trigger: Value,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// Filters the list.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunFilter<'a> {
    pub status: Option<RunStatus>,
    /// A user's internal IDs.
    pub user: Option<&'a [Uuid]>,
}

fn from_row(row: &Row) -> Result<RunSummary, StoreError> {
    let status: &str = row.try_get("status")?;
    Ok(RunSummary {
        id: row.try_get("id")?,
        automation: row.try_get("automation_id")?,
        version: row.try_get("version")?,
        user_id: row.try_get("user_id")?,
        status: RunStatus::parse(status).ok_or_else(|| StoreError::Corrupt(format!("run status {status:?}")))?,
        position: row.try_get("position")?,
        reason: row.try_get("reason")?,
        due_at: row.try_get("due_at")?,
        converted_at: row.try_get("converted_at")?,
        trigger: row.try_get("context")?,
        started_at: row.try_get("started_at")?,
        ended_at: row.try_get("ended_at")?,
    })
}

/// Lists an automation's runs, newest first, before an ID.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    automation: Uuid,
    filter: RunFilter<'_>,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<RunSummary>, StoreError> {
    let sql = "SELECT id, automation_id, version, user_id, status, position, reason, due_at, converted_at, context, \
               started_at, ended_at FROM run WHERE project_id = $1 AND automation_id = $2 AND ($3::uuid IS NULL \
               OR id < $3) AND ($4::text IS NULL OR status = $4) AND ($5::uuid[] IS NULL OR user_id = ANY($5)) \
               ORDER BY id DESC LIMIT $6";
    let status = filter.status.map(RunStatus::as_str);
    let rows = db.query(sql, &[&project, &automation, &before, &status, &filter.user, &limit]).await?;
    rows.iter().map(from_row).collect()
}

/// Returns a run and its trail, in order.
pub async fn get(
    db: &impl GenericClient,
    project: ProjectId,
    automation: Uuid,
    id: Uuid,
) -> Result<Option<(RunSummary, Vec<LogEntry>)>, StoreError> {
    let sql = "SELECT id, automation_id, version, user_id, status, position, reason, due_at, converted_at, context, \
               started_at, ended_at, trail FROM run WHERE project_id = $1 AND automation_id = $2 AND id = $3";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &automation, &id]).await?;
    let Some(row) = row else { return Ok(None) };
    let trail = serde_json::from_value(row.try_get("trail")?);
    Ok(Some((from_row(&row)?, trail.map_err(|e| StoreError::Corrupt(format!("trail of run {id}: {e}")))?)))
}
