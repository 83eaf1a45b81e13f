//! Deleted projects. They are remembered, so that items still in flight for them are dropped, while their rows are
//! removed in batches.

use std::collections::HashSet;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use uuid::Uuid;

use database::StoreError;
use database::months::{self, Month};
use kernel::ids::ProjectId;

/// Rows removed by one statement.
pub const SLICE: i64 = 5_000;

/// Tables partitioned by time, cleared month by month.
const BY_MONTH: [&str; 2] = ["message", "events"];
/// A partitioned table that is cleared in the order of its IDs.
const BY_ID: &str = "client_id";
/// The other tables: due work first, then data, then configuration. A test checks the lists against the schema.
const BY_ROW: [&str; 50] = [
    "send_chunk",
    "timer",
    "date_due",
    "webhook_call",
    "webhook_delivery",
    "run_listener",
    "run",
    "user_import",
    "user_search",
    "users",
    "push_token",
    "segment_member",
    "segment_dirty",
    "segment_start",
    "segment_membership",
    "segment_count",
    "segment_follow",
    "segment_watch",
    "segment_turn",
    "dead_item",
    "capped_send",
    "inbox",
    "inbox_owner",
    "bounce_streak",
    "suppression",
    "subscription",
    "event_count_new",
    "event_count_sum",
    "user_count",
    "user_seen_count",
    "message_count",
    "message_status_count",
    "erasure",
    "campaign_click",
    "campaign_link",
    "campaign_count",
    "campaign_outcome",
    "campaign",
    "automation_count",
    "automation_version",
    "automation",
    "segment",
    "subscription_group",
    "template",
    "news",
    "channel",
    "vapid_key",
    "webhook_endpoint",
    "invite",
    "member",
];
/// Tables that are kept until the removal is forgotten: gateways learn from `api_key` that the keys are revoked, and
/// `audit_log` records who deleted the project.
const LAST_TABLES: [&str; 2] = ["api_key", "audit_log"];

/// Records that a project is deleted, and schedules the removal of its rows.
pub(super) async fn begin(
    tx: &Transaction<'_>,
    project: ProjectId,
    name: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO project_removal (project_id, name, removed_at, look_at) VALUES ($1, $2, $3, $3)";
    tx.execute(sql, &[&project, &name, &now]).await?;
    Ok(())
}

/// Returns all deleted projects that are still remembered.
pub async fn all(db: &impl GenericClient) -> Result<HashSet<ProjectId>, StoreError> {
    let rows = db.query(&db.prepare_cached("SELECT project_id FROM project_removal").await?, &[]).await?;
    rows.iter().map(|row| Ok(row.try_get("project_id")?)).collect()
}

/// Returns those of these projects that are deleted.
pub async fn among(db: &impl GenericClient, projects: &[ProjectId]) -> Result<HashSet<ProjectId>, StoreError> {
    let statement = db.prepare_cached("SELECT project_id FROM project_removal WHERE project_id = ANY($1)").await?;
    db.query(&statement, &[&projects]).await?.iter().map(|row| Ok(row.try_get("project_id")?)).collect()
}

/// A deleted project with due work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    pub project: ProjectId,
    pub removed_at: Timestamp,
}

/// Returns a due removal, locked until the end of the transaction.
pub async fn take_due(tx: &Transaction<'_>, now: Timestamp) -> Result<Option<Removal>, StoreError> {
    // Citus locks rows of one project only, so each due removal is tried separately.
    let due = "SELECT project_id FROM project_removal WHERE look_at <= $1 ORDER BY look_at";
    let sql = "SELECT removed_at FROM project_removal WHERE project_id = $1 AND look_at <= $2 FOR UPDATE SKIP LOCKED";
    let take = tx.prepare_cached(sql).await?;
    for row in tx.query(&tx.prepare_cached(due).await?, &[&now]).await? {
        let project: ProjectId = row.try_get("project_id")?;
        if let Some(row) = tx.query_opt(&take, &[&project, &now]).await? {
            return Ok(Some(Removal { project, removed_at: row.try_get("removed_at")? }));
        }
    }
    Ok(None)
}

/// Locks a due removal until the end of the transaction; returns false if another scheduler holds or has finished it.
pub async fn lock(tx: &Transaction<'_>, project: ProjectId, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "SELECT FROM project_removal WHERE project_id = $1 AND look_at <= $2 FOR UPDATE SKIP LOCKED";
    Ok(tx.query_opt(&tx.prepare_cached(sql).await?, &[&project, &now]).await?.is_some())
}

/// The unit of removal: a table, or one month of a time-partitioned table. A transaction removes rows of only one part,
/// because its locks last until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Month(&'static str, Month),
    ById(&'static str),
    ByRow(&'static str),
}

/// Returns all parts, in the order of removal.
pub async fn parts(db: &impl GenericClient) -> Result<Vec<Part>, StoreError> {
    let mut parts = Vec::new();
    for table in BY_MONTH {
        parts.extend(months::of_table(db, table).await?.into_iter().rev().map(|month| Part::Month(table, month)));
    }
    parts.push(Part::ById(BY_ID));
    parts.extend(BY_ROW.map(Part::ByRow));
    Ok(parts)
}

/// Removes up to [`SLICE`] rows of a part; returns how many, 0 if none are left.
pub async fn remove_slice(tx: &Transaction<'_>, project: ProjectId, part: Part) -> Result<u64, StoreError> {
    match part {
        Part::Month(table, month) => remove_by_id(tx, table, project, &month.condition("id")).await,
        Part::ById(table) => remove_by_id(tx, table, project, "true").await,
        Part::ByRow(table) => remove_by_row(tx, table, project).await,
    }
}

async fn remove_by_id(tx: &Transaction<'_>, table: &str, project: ProjectId, limited: &str) -> Result<u64, StoreError> {
    let sql = format!("SELECT id FROM {table} WHERE project_id = $1 AND {limited} ORDER BY id OFFSET {SLICE} LIMIT 1");
    let row = tx.query_opt(&tx.prepare_cached(&sql).await?, &[&project]).await?;
    let end: Option<Uuid> = row.map(|row| row.try_get("id")).transpose()?;
    let sql = format!("DELETE FROM {table} WHERE project_id = $1 AND {limited} AND ($2::uuid IS NULL OR id < $2)");
    Ok(tx.execute(&tx.prepare_cached(&sql).await?, &[&project, &end]).await?)
}

async fn remove_by_row(tx: &Transaction<'_>, table: &str, project: ProjectId) -> Result<u64, StoreError> {
    let sql = format!(
        "DELETE FROM {table} WHERE project_id = $1 AND ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE project_id = $1 LIMIT {SLICE}))"
    );
    Ok(tx.execute(&tx.prepare_cached(&sql).await?, &[&project]).await?)
}

/// Schedules the next check, because transactions that were open when the project was deleted may have added rows.
pub async fn schedule_check(tx: &Transaction<'_>, project: ProjectId, at: Timestamp) -> Result<(), StoreError> {
    tx.execute("UPDATE project_removal SET look_at = $2 WHERE project_id = $1", &[&project, &at]).await?;
    Ok(())
}

/// Removes the remaining rows of a project and its removal.
pub async fn forget(tx: &Transaction<'_>, project: ProjectId) -> Result<(), StoreError> {
    for table in LAST_TABLES {
        while remove_by_row(tx, table, project).await? > 0 {}
    }
    tx.execute("DELETE FROM project_removal WHERE project_id = $1", &[&project]).await?;
    Ok(())
}

/// Returns all tables with rows of projects that this module clears.
pub fn tables() -> impl Iterator<Item = &'static str> {
    BY_MONTH.into_iter().chain([BY_ID]).chain(BY_ROW).chain(LAST_TABLES)
}
