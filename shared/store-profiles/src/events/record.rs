//! The recording transaction's statements on events.

use std::collections::HashSet;

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use uuid::Uuid;

use database::StoreError;
use kernel::ids::ProjectId;

pub use super::copy::copy;

/// An event to be recorded.
#[derive(Clone, Debug)]
pub struct NewEvent<'a> {
    pub project: ProjectId,
    pub id: Uuid,
    pub client_id: Option<Uuid>,
    pub name: &'a str,
    pub user_id: Uuid,
    pub anonymous_id: Option<&'a str>,
    /// JSON text.
    pub properties: &'a str,
    pub ts: Timestamp,
    pub received_at: Timestamp,
}

/// Records events, some of which may exist; returns the project and ID of each new event.
pub async fn insert(tx: &Transaction<'_>, events: &[NewEvent<'_>]) -> Result<HashSet<(ProjectId, Uuid)>, StoreError> {
    if events.is_empty() {
        return Ok(HashSet::new());
    }
    let projects: Vec<ProjectId> = events.iter().map(|e| e.project).collect();
    let ids: Vec<Uuid> = events.iter().map(|e| e.id).collect();
    let client_ids: Vec<Option<Uuid>> = events.iter().map(|e| e.client_id).collect();
    let names: Vec<&str> = events.iter().map(|e| e.name).collect();
    let users: Vec<Uuid> = events.iter().map(|e| e.user_id).collect();
    let anonymous: Vec<Option<&str>> = events.iter().map(|e| e.anonymous_id).collect();
    let properties: Vec<&str> = events.iter().map(|e| e.properties).collect();
    let ts: Vec<Timestamp> = events.iter().map(|e| e.ts).collect();
    let received: Vec<Timestamp> = events.iter().map(|e| e.received_at).collect();
    let sql = "INSERT INTO events (project_id, id, client_id, name, user_id, anonymous_id, properties, ts, received_at) \
               SELECT p, i, c, n, u, a, j::jsonb, t, r FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::uuid[], $9::text[], $6::text[], $7::timestamptz[], $8::timestamptz[]) \
               AS v(p, i, c, n, u, a, j, t, r) ON CONFLICT (project_id, id) DO NOTHING RETURNING project_id, id";
    let statement = tx.prepare_cached(sql).await?;
    let rows = tx
        .query(&statement, &[&projects, &ids, &client_ids, &names, &users, &properties, &ts, &received, &anonymous])
        .await?;
    rows.iter().map(|r| Ok((r.try_get("project_id")?, r.try_get("id")?))).collect()
}

/// An ID for deduplication, and the event row that it refers to (none for a profile update).
#[derive(Clone, Copy, Debug)]
pub struct NewClientId {
    pub project: ProjectId,
    pub id: Uuid,
    pub event_id: Option<Uuid>,
}

/// Claims client IDs, which must not contain duplicates; returns those that were not claimed before.
pub async fn claim_client_ids(
    tx: &Transaction<'_>,
    ids: &[NewClientId],
    now: Timestamp,
) -> Result<HashSet<(ProjectId, Uuid)>, StoreError> {
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let projects: Vec<ProjectId> = ids.iter().map(|c| c.project).collect();
    let own: Vec<Uuid> = ids.iter().map(|c| c.id).collect();
    let events: Vec<Option<Uuid>> = ids.iter().map(|c| c.event_id).collect();
    let sql = "INSERT INTO client_id (project_id, id, event_id, created_at) SELECT p, i, e, $4 FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS v(p, i, e) \
               ORDER BY p, i ON CONFLICT (project_id, id) DO NOTHING RETURNING project_id, id";
    let statement = tx.prepare_cached(sql).await?;
    let rows = tx.query(&statement, &[&projects, &own, &events, &now]).await?;
    rows.iter().map(|r| Ok((r.try_get("project_id")?, r.try_get("id")?))).collect()
}
