//! Reads automations, for the API and for the workers that run them.

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{ActiveAutomation, Automation, FollowedAutomation, decoded, from_row};
use automation::Definition;
use database::StoreError;
use kernel::ids::ProjectId;

pub async fn get(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<Automation>, StoreError> {
    let sql = "SELECT id, name, active, version, definition, created_at, updated_at FROM automation \
               WHERE project_id = $1 AND id = $2 AND deleted_at IS NULL";
    db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// Lists automations, newest first, before an ID.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Automation>, StoreError> {
    let sql = "SELECT id, name, active, version, definition, created_at, updated_at FROM automation \
               WHERE project_id = $1 AND deleted_at IS NULL AND ($2::uuid IS NULL OR id < $2) ORDER BY id DESC \
               LIMIT $3";
    db.query(&db.prepare_cached(sql).await?, &[&project, &before, &limit]).await?.iter().map(from_row).collect()
}

/// An automation that sends a template, or sends to the subscribers of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendingUse {
    pub automation: Uuid,
    pub name: String,
    /// Whether it is active and its newest version sends it. Otherwise only runs in progress do, of any version.
    pub active: bool,
}

/// Finds an active automation whose newest version sends this template, or one with runs in progress whose version
/// does.
pub async fn uses_template(
    db: &impl GenericClient,
    project: ProjectId,
    template: Uuid,
) -> Result<Option<SendingUse>, StoreError> {
    let sql = "SELECT id, name, active FROM (SELECT a.id, a.name, a.active \
               AND jsonb_path_exists(a.definition, '$.steps.**.templateId ? (@ == $t)', jsonb_build_object('t', \
               $2::text)) AS active, EXISTS (SELECT FROM automation_version v WHERE v.project_id = $1 \
               AND v.automation_id = a.id AND jsonb_path_exists(v.definition, '$.steps.**.templateId ? (@ == $t)', \
               jsonb_build_object('t', $2::text)) AND EXISTS (SELECT FROM run r WHERE r.project_id = $1 \
               AND r.automation_id = a.id AND r.version = v.version AND r.ended_at IS NULL)) AS under_way \
               FROM automation a WHERE a.project_id = $1 AND a.deleted_at IS NULL) AS found WHERE active OR under_way \
               ORDER BY active DESC, id LIMIT 1";
    used(db, sql, project, template).await
}

/// Like [`uses_template`], for a subscription group.
pub async fn uses_subscription_group(
    db: &impl GenericClient,
    project: ProjectId,
    group: Uuid,
) -> Result<Option<SendingUse>, StoreError> {
    let sql = "SELECT id, name, active FROM (SELECT a.id, a.name, a.active \
               AND jsonb_path_exists(a.definition, '$.steps.**.subscriptionGroupId ? (@ == $t)', \
               jsonb_build_object('t', $2::text)) AS active, EXISTS (SELECT FROM automation_version v \
               WHERE v.project_id = $1 AND v.automation_id = a.id \
               AND jsonb_path_exists(v.definition, '$.steps.**.subscriptionGroupId ? (@ == $t)', \
               jsonb_build_object('t', $2::text)) AND EXISTS (SELECT FROM run r WHERE r.project_id = $1 \
               AND r.automation_id = a.id AND r.version = v.version AND r.ended_at IS NULL)) AS under_way \
               FROM automation a WHERE a.project_id = $1 AND a.deleted_at IS NULL) AS found WHERE active OR under_way \
               ORDER BY active DESC, id LIMIT 1";
    used(db, sql, project, group).await
}

async fn used(
    db: &impl GenericClient,
    sql: &str,
    project: ProjectId,
    id: Uuid,
) -> Result<Option<SendingUse>, StoreError> {
    let row = db.query_opt(sql, &[&project, &id.to_string()]).await?;
    let found = |row: Row| {
        Ok(SendingUse { automation: row.try_get("id")?, name: row.try_get("name")?, active: row.try_get("active")? })
    };
    row.map(found).transpose()
}

/// Finds an active automation that this segment triggers. Returns its ID and name.
pub async fn uses_segment(
    db: &impl GenericClient,
    project: ProjectId,
    segment: Uuid,
) -> Result<Option<(Uuid, String)>, StoreError> {
    let sql = "SELECT id, name FROM automation WHERE project_id = $1 AND active AND deleted_at IS NULL \
               AND trigger_type IN ('SEGMENT_ENTER', 'SEGMENT_EXIT') AND definition ->> 'triggerSegmentId' = $2 \
               ORDER BY id LIMIT 1";
    let row = db.query_opt(sql, &[&project, &segment.to_string()]).await?;
    row.map(|row| Ok((row.try_get("id")?, row.try_get("name")?))).transpose()
}

/// An automation that a segment triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BySegment {
    pub automation: Uuid,
    pub segment: Uuid,
    /// Whether it is triggered by entering the segment; false if by leaving it.
    pub entered: bool,
}

/// Returns the project's active automations that segments trigger, oldest first.
pub async fn by_segments(db: &impl GenericClient, project: ProjectId) -> Result<Vec<BySegment>, StoreError> {
    let sql = "SELECT id, (definition ->> 'triggerSegmentId')::uuid AS segment_id, \
               trigger_type = 'SEGMENT_ENTER' AS entered FROM automation WHERE project_id = $1 AND active \
               AND deleted_at IS NULL AND trigger_type IN ('SEGMENT_ENTER', 'SEGMENT_EXIT') \
               AND definition ->> 'triggerSegmentId' IS NOT NULL ORDER BY id";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project]).await?;
    let found = |row: &Row| {
        Ok(BySegment {
            automation: row.try_get("id")?,
            segment: row.try_get("segment_id")?,
            entered: row.try_get("entered")?,
        })
    };
    rows.iter().map(found).collect()
}

/// Reads the automations of every project that may start runs or may have listening runs: up to 500 after an
/// automation; empty at the end.
///
/// An automation that this program cannot decode is logged and starts no runs. To keep up with changes, read
/// `Topic::Automation`'s sequence first, and call [`changed_after`] later.
pub async fn load_followed(
    db: &impl GenericClient,
    after: Option<(ProjectId, Uuid)>,
) -> Result<Vec<FollowedAutomation>, StoreError> {
    let (project, id) = after.unwrap_or((ProjectId(Uuid::nil()), Uuid::nil()));
    let sql = "SELECT project_id, id, version, definition, active AND deleted_at IS NULL AS may_start, \
               CASE WHEN deleted_at IS NULL THEN hears ELSE '{}' END AS hears FROM automation \
               WHERE (project_id, id) > ($1, $2) AND deleted_at IS NULL AND (active OR hears <> '{}') \
               ORDER BY project_id, id LIMIT 500";
    db.query(&db.prepare_cached(sql).await?, &[&project, &id]).await?.iter().map(followed).collect()
}

/// Returns the automations that were changed after a sequence of `Topic::Automation`, including those that neither
/// start runs nor have listening runs any more.
pub async fn changed_after(db: &impl GenericClient, seq: i64) -> Result<Vec<FollowedAutomation>, StoreError> {
    let sql = "SELECT project_id, id, version, definition, active AND deleted_at IS NULL AS may_start, \
               CASE WHEN deleted_at IS NULL THEN hears ELSE '{}' END AS hears FROM automation WHERE changed_seq > $1 \
               ORDER BY changed_seq";
    db.query(&db.prepare_cached(sql).await?, &[&seq]).await?.iter().map(followed).collect()
}

fn followed(row: &Row) -> Result<FollowedAutomation, StoreError> {
    let (project, id): (ProjectId, Uuid) = (row.try_get("project_id")?, row.try_get("id")?);
    let mut active = None;
    if row.try_get("may_start")? {
        match decoded(id, row.try_get("definition")?) {
            Ok(definition) => {
                active = Some(ActiveAutomation { project, id, version: row.try_get("version")?, definition });
            }
            Err(error) => {
                tracing::error!(%project, automation = %id, %error, "cannot decode an automation; it starts no runs");
            }
        }
    }
    Ok(FollowedAutomation { project, id, active, listens_for: row.try_get("hears")? })
}

/// Returns the definition that a run started with.
pub async fn get_version(
    db: &impl GenericClient,
    project: ProjectId,
    automation: Uuid,
    version: i32,
) -> Result<Option<Definition>, StoreError> {
    let sql = "SELECT definition FROM automation_version WHERE project_id = $1 AND automation_id = $2 AND version = $3";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &automation, &version]).await?;
    row.map(|row| decoded(automation, row.try_get("definition")?)).transpose()
}

/// Returns whether its runs may continue now; false if it is deleted.
pub async fn is_active(db: &impl GenericClient, project: ProjectId, automation: Uuid) -> Result<bool, StoreError> {
    let sql = "SELECT active AND deleted_at IS NULL AS is_active FROM automation WHERE project_id = $1 AND id = $2";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &automation]).await?;
    row.map_or(Ok(false), |row| Ok(row.try_get("is_active")?))
}
