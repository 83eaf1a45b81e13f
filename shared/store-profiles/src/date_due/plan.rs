//! Scans all users once, in slices, for each version of an automation that dates start.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio_postgres::Row;
use uuid::Uuid;

use automation::{DateTrigger, Definition};
use database::StoreError;
use kernel::ids::ProjectId;

/// An automation whose dates are to be stored or removed.
#[derive(Clone, Debug)]
pub struct Plan {
    pub project: ProjectId,
    pub automation: Uuid,
    /// The date trigger of an active automation; none if the stored dates are to be removed.
    pub trigger: Option<DateTrigger>,
    /// Only dates after this time are stored.
    pub since: Timestamp,
    /// The last user ID scanned; none before the scan starts.
    pub scanned_to: Option<Uuid>,
    /// The project's timezone.
    pub timezone: String,
}

/// Returns up to `max` automations with a pending scan, longest waiting first.
///
/// At most two per project, so that one project cannot delay the others; none of a deleted project. Takes no locks:
/// Citus refuses locks across projects.
pub async fn pending(db: &impl GenericClient, max: i64) -> Result<Vec<(ProjectId, Uuid)>, StoreError> {
    let sql = "SELECT project_id, id FROM (SELECT a.project_id, a.id, a.dates_since, \
               row_number() OVER (PARTITION BY a.project_id ORDER BY a.dates_since, a.id) AS nth \
               FROM automation a JOIN project p ON p.project_id = a.project_id WHERE a.dates_since IS NOT NULL) AS asked \
               WHERE nth <= 2 ORDER BY dates_since, id LIMIT $1";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&max]).await?;
    rows.iter().map(|row| Ok((row.try_get("project_id")?, row.try_get("id")?))).collect()
}

/// Locks an automation until the end of the transaction and returns its plan.
///
/// Returns none if another scheduler holds the lock or the scan is done. A definition that this version cannot decode
/// starts nothing, so its plan has no trigger.
pub async fn lock(tx: &Transaction<'_>, project: ProjectId, automation: Uuid) -> Result<Option<Plan>, StoreError> {
    let sql = "SELECT a.definition, a.active AND a.deleted_at IS NULL AS is_active, a.dates_since, a.dates_to, \
               p.timezone FROM automation a JOIN project p ON p.project_id = a.project_id \
               WHERE a.project_id = $1 AND a.id = $2 AND a.dates_since IS NOT NULL FOR UPDATE OF a SKIP LOCKED";
    let Some(row) = tx.query_opt(&tx.prepare_cached(sql).await?, &[&project, &automation]).await? else {
        return Ok(None);
    };
    let is_active: bool = row.try_get("is_active")?;
    let definition = Definition::decode(row.try_get("definition")?).ok().filter(|_| is_active);
    Ok(Some(Plan {
        project,
        automation,
        trigger: definition.and_then(|definition| definition.date().cloned()),
        since: row.try_get("dates_since")?,
        scanned_to: row.try_get("dates_to")?,
        timezone: row.try_get("timezone")?,
    }))
}

/// Marks the scan as started, unless another scan has been requested since the plan was read.
pub async fn mark_started(db: &impl GenericClient, plan: &Plan) -> Result<(), StoreError> {
    let sql = "UPDATE automation SET dates_to = $4 WHERE project_id = $1 AND id = $2 AND dates_since = $3 AND dates_to IS NULL";
    db.execute(&db.prepare_cached(sql).await?, &[&plan.project, &plan.automation, &plan.since, &Uuid::nil()]).await?;
    Ok(())
}

/// The part of a user that a date trigger needs.
#[derive(Clone, Debug, PartialEq)]
pub struct DatedUser {
    pub id: Uuid,
    pub external_id: Option<String>,
    pub anonymous_id: Option<String>,
    /// The trigger's property and `timezone`, if the user has them.
    pub properties: Map<String, Value>,
    /// The last occurrence that was handled.
    pub last_at: Option<Timestamp>,
}

/// Returns the last of the next `user_count` user IDs after `after`; none if fewer remain.
pub async fn slice_end(
    tx: &Transaction<'_>,
    project: ProjectId,
    after: Option<Uuid>,
    user_count: i64,
) -> Result<Option<Uuid>, StoreError> {
    let sql = "SELECT id FROM users WHERE project_id = $1 AND id > $2 ORDER BY id OFFSET $3 LIMIT 1";
    let after = after.unwrap_or_default();
    let row = tx.query_opt(&tx.prepare_cached(sql).await?, &[&project, &after, &(user_count - 1)]).await?;
    row.map(|row| Ok(row.try_get("id")?)).transpose()
}

/// Returns the users after `scanned_to`, up to and including `to`, who have the property (its first key)
/// or a stored date, except those who are being erased.
///
/// `OFFSET 0` keeps the subqueries separate: each looks up one user by the whole primary key. As a join, PostgreSQL
/// scanned a table that the planner believed to be empty, as it does until its first ANALYZE, once for each user.
pub async fn users(
    tx: &Transaction<'_>,
    plan: &Plan,
    key: &str,
    to: Option<Uuid>,
) -> Result<Vec<DatedUser>, StoreError> {
    let sql = "SELECT u.id, u.external_id, u.anonymous_id, u.properties -> $3::text AS date, \
               u.properties -> 'timezone' AS timezone, d.last_at FROM users u \
               LEFT JOIN LATERAL (SELECT user_id, last_at FROM date_due WHERE project_id = $1 AND automation_id = $2 \
               AND user_id = u.id OFFSET 0) d ON true \
               WHERE u.project_id = $1 AND u.id > $4 AND u.id <= $5 AND u.merged_into IS NULL \
               AND (u.properties ? $3::text OR d.user_id IS NOT NULL) \
               AND NOT EXISTS (SELECT FROM erasure e WHERE e.project_id = $1 AND e.user_id = u.id AND e.is_pending OFFSET 0) ORDER BY u.id";
    let (after, to) = (plan.scanned_to.unwrap_or_default(), to.unwrap_or(Uuid::max()));
    let statement = tx.prepare_cached(sql).await?;
    let rows = tx.query(&statement, &[&plan.project, &plan.automation, &key, &after, &to]).await?;
    let dated = |row: &Row| {
        let (date, timezone): (Option<Value>, Option<Value>) = (row.try_get("date")?, row.try_get("timezone")?);
        let properties = [("timezone", timezone), (key, date)].into_iter();
        Ok(DatedUser {
            id: row.try_get("id")?,
            external_id: row.try_get("external_id")?,
            anonymous_id: row.try_get("anonymous_id")?,
            properties: properties.filter_map(|(key, value)| Some((key.to_owned(), value?))).collect(),
            last_at: row.try_get("last_at")?,
        })
    };
    rows.iter().map(dated).collect()
}

/// Removes up to `max` stored dates of an automation that dates no longer start; returns how many.
pub async fn clear(tx: &Transaction<'_>, plan: &Plan, max: i64) -> Result<u64, StoreError> {
    // An array instead of a join, for the same reason as in `users`.
    let sql = "DELETE FROM date_due WHERE project_id = $1 AND automation_id = $2 AND user_id = ANY(ARRAY(SELECT user_id \
               FROM date_due WHERE project_id = $1 AND automation_id = $2 ORDER BY user_id LIMIT $3 FOR UPDATE))";
    Ok(tx.execute(&tx.prepare_cached(sql).await?, &[&plan.project, &plan.automation, &max]).await?)
}

/// Records the progress of the scan: the last user ID scanned, or none if the scan is complete.
pub async fn record_progress(tx: &Transaction<'_>, plan: &Plan, to: Option<Uuid>) -> Result<(), StoreError> {
    let sql = "UPDATE automation SET dates_to = $3, dates_since = CASE WHEN $3::uuid IS NULL THEN NULL ELSE dates_since END \
               WHERE project_id = $1 AND id = $2";
    tx.execute(&tx.prepare_cached(sql).await?, &[&plan.project, &plan.automation, &to]).await?;
    Ok(())
}

/// Requests a new scan of a project's dates after a change of its timezone.
///
/// If a scan is still pending, its start time is kept, so that no date that has come since then is lost. It is moved by
/// 1 µs, so that [`mark_started`] can distinguish the two requests.
pub async fn request_scan(tx: &Transaction<'_>, project: ProjectId, now: Timestamp) -> Result<(), StoreError> {
    // Computed in UTC: otherwise the result would depend on the session's timezone, which Citus refuses here.
    let sql = "UPDATE automation SET dates_to = NULL, \
               dates_since = coalesce((dates_since AT TIME ZONE 'UTC' - interval '1 microsecond') AT TIME ZONE 'UTC', $2) \
               WHERE project_id = $1 AND active AND trigger_type = 'DATE_PROPERTY'";
    tx.execute(sql, &[&project, &now]).await?;
    Ok(())
}
