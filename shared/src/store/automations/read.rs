//! Reading automations: for the API, and for the workers that run them.

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{ActiveAutomation, Automation, AutomationChange, COLUMNS, decoded, from_row};
use crate::automation::Definition;
use crate::ids::ProjectId;
use crate::store::StoreError;

pub async fn get(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<Automation>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM automation WHERE project_id = $1 AND id = $2 AND deleted_at IS NULL");
    db.query_opt(&db.prepare_cached(&sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// Newest first, those before an id.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Automation>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM automation WHERE project_id = $1 AND deleted_at IS NULL AND ($2::uuid IS NULL OR id < $2) \
         ORDER BY id DESC LIMIT $3"
    );
    db.query(&db.prepare_cached(&sql).await?, &[&project, &before, &limit]).await?.iter().map(from_row).collect()
}

/// An active automation whose newest version sends this template: its id and name.
pub async fn uses_template(
    db: &impl GenericClient,
    project: ProjectId,
    template: Uuid,
) -> Result<Option<(Uuid, String)>, StoreError> {
    let sql = "SELECT id, name FROM automation WHERE project_id = $1 AND active AND deleted_at IS NULL \
               AND definition @> jsonb_build_object('steps', jsonb_build_array(jsonb_build_object('templateId', $2::text))) \
               ORDER BY id LIMIT 1";
    let row = db.query_opt(sql, &[&project, &template.to_string()]).await?;
    row.map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose()
}

/// Every active automation of every project. One that this program cannot read is logged and left out.
/// To keep up, read `Topic::Automation`'s sequence before this, and [`changed_after`] it later.
pub async fn load_active(db: &impl GenericClient) -> Result<Vec<ActiveAutomation>, StoreError> {
    let sql = "SELECT project_id, id, version, definition, true FROM automation WHERE active AND deleted_at IS NULL";
    let mut active = Vec::new();
    for row in db.query(sql, &[]).await? {
        if let AutomationChange::Active(automation) = change(&row)? {
            active.push(automation);
        }
    }
    Ok(active)
}

/// What changed after a sequence of `Topic::Automation`.
pub async fn changed_after(db: &impl GenericClient, seq: i64) -> Result<Vec<AutomationChange>, StoreError> {
    let sql = "SELECT project_id, id, version, definition, active AND deleted_at IS NULL FROM automation \
               WHERE changed_seq > $1 ORDER BY changed_seq";
    db.query(&db.prepare_cached(sql).await?, &[&seq]).await?.iter().map(change).collect()
}

fn change(row: &Row) -> Result<AutomationChange, StoreError> {
    let (project, id) = (row.try_get(0)?, row.try_get(1)?);
    let inactive = AutomationChange::Inactive { project, id };
    if !row.try_get::<_, bool>(4)? {
        return Ok(inactive);
    }
    match decoded(id, row.try_get(3)?) {
        Ok(definition) => {
            Ok(AutomationChange::Active(ActiveAutomation { project, id, version: row.try_get(2)?, definition }))
        }
        Err(error) => {
            tracing::error!(%project, automation = %id, %error, "an automation cannot be read, and starts no runs");
            Ok(inactive)
        }
    }
}

/// The definition that a run started with.
pub async fn version(
    db: &impl GenericClient,
    project: ProjectId,
    automation: Uuid,
    version: i32,
) -> Result<Option<Definition>, StoreError> {
    let sql = "SELECT definition FROM automation_version WHERE project_id = $1 AND automation_id = $2 AND version = $3";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &automation, &version]).await?;
    row.map(|row| decoded(automation, row.try_get(0)?)).transpose()
}

/// Whether its runs may go on now; a deleted one's may not.
pub async fn is_active(db: &impl GenericClient, project: ProjectId, automation: Uuid) -> Result<bool, StoreError> {
    let sql = "SELECT active AND deleted_at IS NULL FROM automation WHERE project_id = $1 AND id = $2";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &automation]).await?;
    row.map_or(Ok(false), |row| Ok(row.try_get(0)?))
}
