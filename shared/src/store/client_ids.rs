//! Ids that clients chose, and what each of them came to stand for.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;

use super::StoreError;
use crate::ids::ProjectId;

/// The id by which an idempotency key is kept: each kind of resource has a name space of its own beside the events'.
pub fn resource_key(project: ProjectId, resource: &str, idempotency_key: &str) -> Uuid {
    Uuid::new_v5(&project.0, format!("{resource}:{idempotency_key}").as_bytes())
}

/// What a key stands for: `fresh` if it is new, or else the id of its first use.
pub async fn first_of(
    db: &impl GenericClient,
    project: ProjectId,
    key: Uuid,
    fresh: Uuid,
    now: Timestamp,
) -> Result<Uuid, StoreError> {
    let insert = "INSERT INTO client_id (project_id, id, event_id, created_at) VALUES ($1, $2, $3, $4) \
                  ON CONFLICT (project_id, id) DO NOTHING";
    if db.execute(&db.prepare_cached(insert).await?, &[&project, &key, &fresh, &now]).await? == 1 {
        return Ok(fresh);
    }
    let sql = "SELECT event_id FROM client_id WHERE project_id = $1 AND id = $2";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &key]).await?;
    let first = row.map(|row| row.try_get::<_, Option<Uuid>>(0)).transpose()?.flatten();
    // Removed between the two statements: then it may count anew.
    Ok(first.unwrap_or(fresh))
}
