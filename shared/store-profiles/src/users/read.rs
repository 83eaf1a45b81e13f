//! Reads users. A merged user resolves to the user they were merged into.

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::users::user_ref::UserRef;
use database::StoreError;
use kernel::ids::ProjectId;

/// A user.
#[derive(Clone, Debug, PartialEq)]
pub struct User {
    pub id: Uuid,
    pub external_id: Option<String>,
    pub anonymous_id: Option<String>,
    pub email: Option<String>,
    pub name: Option<String>,
    /// A JSON object.
    pub properties: Value,
    pub created_at: Timestamp,
    pub last_seen_at: Timestamp,
    pub updated_at: Timestamp,
}

pub(crate) fn from_row(row: &Row) -> Result<User, StoreError> {
    Ok(User {
        id: row.try_get("id")?,
        external_id: row.try_get("external_id")?,
        anonymous_id: row.try_get("anonymous_id")?,
        email: row.try_get("email")?,
        name: row.try_get("name")?,
        properties: row.try_get("properties")?,
        created_at: row.try_get("created_at")?,
        last_seen_at: row.try_get("last_seen_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}

/// Returns the user that a request names.
pub async fn find(db: &impl GenericClient, project: ProjectId, user: UserRef<'_>) -> Result<Option<User>, StoreError> {
    row_of(db, project, find_id(db, project, user).await?).await
}

/// As [`find`], but also accepts the ID of an anonymous user. For read access only.
pub async fn find_readable(
    db: &impl GenericClient,
    project: ProjectId,
    user: UserRef<'_>,
) -> Result<Option<User>, StoreError> {
    row_of(db, project, find_readable_id(db, project, user).await?).await
}

async fn row_of(db: &impl GenericClient, project: ProjectId, id: Option<Uuid>) -> Result<Option<User>, StoreError> {
    let Some(id) = id else { return Ok(None) };
    let sql = "SELECT id, external_id, anonymous_id, email, name, properties, created_at, last_seen_at, updated_at \
               FROM users WHERE project_id = $1 AND id = $2";
    db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// Returns the user with this internal ID; none if they were merged into another user.
pub async fn get(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<User>, StoreError> {
    let sql = "SELECT id, external_id, anonymous_id, email, name, properties, created_at, last_seen_at, updated_at \
               FROM users WHERE project_id = $1 AND id = $2 AND merged_into IS NULL";
    db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// As [`find`], but returns only the internal ID.
pub async fn find_id(
    db: &impl GenericClient,
    project: ProjectId,
    user: UserRef<'_>,
) -> Result<Option<Uuid>, StoreError> {
    first_existing(db, project, user.candidates(project)).await
}

/// As [`find_readable`], but returns only the internal ID.
pub async fn find_readable_id(
    db: &impl GenericClient,
    project: ProjectId,
    user: UserRef<'_>,
) -> Result<Option<Uuid>, StoreError> {
    first_existing(db, project, user.readable(project)).await
}

/// Returns the user that the first matching ID resolves to.
///
/// Follows the pointers of merged users to their end. `OFFSET 0`, here and below, makes PostgreSQL look up each user by
/// ID: the planner does not know the size of a project and would otherwise scan all its users.
async fn first_existing(
    db: &impl GenericClient,
    project: ProjectId,
    candidates: Vec<Uuid>,
) -> Result<Option<Uuid>, StoreError> {
    let sql = "WITH RECURSIVE way AS (SELECT id AS start, id, merged_into, 0 AS hops FROM users WHERE project_id = $1 \
               AND id = ANY($2) UNION ALL SELECT w.start, u.id, u.merged_into, w.hops + 1 FROM way w \
               CROSS JOIN LATERAL (SELECT id, merged_into FROM users WHERE project_id = $1 \
               AND id = w.merged_into OFFSET 0) u WHERE w.hops < 16) SELECT id FROM way WHERE merged_into IS NULL \
               ORDER BY array_position($2::uuid[], start) LIMIT 1";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &candidates]).await?;
    row.map_or(Ok(None), |row| Ok(row.try_get("id")?))
}

/// Locks a user against merging and erasure until the end of the transaction. Returns false if they do not exist or
/// were merged.
pub async fn lock_for_share(tx: &Transaction<'_>, project: ProjectId, user: Uuid) -> Result<bool, StoreError> {
    let sql = "SELECT FROM users WHERE project_id = $1 AND id = $2 AND merged_into IS NULL FOR SHARE";
    Ok(tx.query_opt(&tx.prepare_cached(sql).await?, &[&project, &user]).await?.is_some())
}

/// Returns the user that an internal ID resolves to.
pub async fn follow(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<User>, StoreError> {
    row_of(db, project, resolve(db, project, id).await?).await
}

/// As [`follow`], but returns only the internal ID.
pub async fn resolve(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<Uuid>, StoreError> {
    let sql = "WITH RECURSIVE way AS (SELECT id AS start, id, merged_into, 0 AS hops FROM users WHERE project_id = $1 \
               AND id = ANY($2) UNION ALL SELECT w.start, u.id, u.merged_into, w.hops + 1 FROM way w \
               CROSS JOIN LATERAL (SELECT id, merged_into FROM users WHERE project_id = $1 \
               AND id = w.merged_into OFFSET 0) u WHERE w.hops < 16) SELECT id FROM way WHERE merged_into IS NULL";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &vec![id]]).await?;
    row.map_or(Ok(None), |row| Ok(row.try_get("id")?))
}

/// Returns all internal IDs of a user: their own and those of users merged into them.
pub async fn all_ids(db: &impl GenericClient, project: ProjectId, user: Uuid) -> Result<Vec<Uuid>, StoreError> {
    // UNION instead of UNION ALL, so that the recursion ends even if rows form a cycle.
    let sql = "WITH RECURSIVE own AS (SELECT $2::uuid AS id UNION SELECT u.id FROM own o CROSS JOIN LATERAL \
               (SELECT id FROM users WHERE project_id = $1 AND merged_into = o.id OFFSET 0) u) SELECT id FROM own";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &user]).await?;
    rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// Returns the users that internal IDs resolve to, by ID. Unknown IDs are omitted.
pub async fn resolve_all(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Uuid>, StoreError> {
    let sql = "WITH RECURSIVE way AS (SELECT id AS start, id, merged_into, 0 AS hops FROM users WHERE project_id = $1 \
               AND id = ANY($2) UNION ALL SELECT w.start, u.id, u.merged_into, w.hops + 1 FROM way w \
               CROSS JOIN LATERAL (SELECT id, merged_into FROM users WHERE project_id = $1 \
               AND id = w.merged_into OFFSET 0) u WHERE w.hops < 16) SELECT start, id FROM way \
               WHERE merged_into IS NULL";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &ids]).await?;
    rows.iter().map(|row| Ok((row.try_get("start")?, row.try_get("id")?))).collect()
}

/// As [`get`], for many users.
pub async fn get_all(db: &impl GenericClient, project: ProjectId, ids: &[Uuid]) -> Result<Vec<User>, StoreError> {
    let sql = "SELECT id, external_id, anonymous_id, email, name, properties, created_at, last_seen_at, updated_at \
               FROM users WHERE project_id = $1 AND id = ANY($2) AND merged_into IS NULL";
    db.query(&db.prepare_cached(sql).await?, &[&project, &ids]).await?.iter().map(from_row).collect()
}

/// Returns up to `max` user IDs after an ID, in order.
pub async fn ids_after(
    db: &impl GenericClient,
    project: ProjectId,
    after: Option<Uuid>,
    max: i64,
) -> Result<Vec<Uuid>, StoreError> {
    let after = after.unwrap_or_default();
    let sql = "SELECT id FROM users WHERE project_id = $1 AND id > $2 AND merged_into IS NULL ORDER BY id LIMIT $3";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &after, &max]).await?;
    rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// Returns the ID of the `width`-th user after an ID, in the order of IDs; none if there are fewer.
pub async fn range_end(
    db: &impl GenericClient,
    project: ProjectId,
    after: Uuid,
    width: i64,
) -> Result<Option<Uuid>, StoreError> {
    let sql = "SELECT id FROM users WHERE project_id = $1 AND id > $2 ORDER BY id OFFSET $3 LIMIT 1";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &after, &(width - 1).max(0)]).await?;
    Ok(row.map(|row| row.try_get("id")).transpose()?)
}

/// IDs, each with the user it belongs to at the same index of `owners`.
#[derive(Debug, Default)]
pub struct OwnedIds {
    pub ids: Vec<Uuid>,
    pub owners: Vec<Uuid>,
}

/// As [`all_ids`], for many users.
pub async fn all_ids_of(db: &impl GenericClient, project: ProjectId, users: &[Uuid]) -> Result<OwnedIds, StoreError> {
    let sql = "WITH RECURSIVE own AS (SELECT p AS id, p AS person FROM unnest($2::uuid[]) AS p UNION \
               SELECT u.id, o.person FROM own o CROSS JOIN LATERAL (SELECT id FROM users WHERE project_id = $1 \
               AND merged_into = o.id OFFSET 0) u) SELECT id, person FROM own";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &users]).await?;
    let mut found = OwnedIds { ids: Vec::with_capacity(rows.len()), owners: Vec::with_capacity(rows.len()) };
    for row in rows {
        found.ids.push(row.try_get("id")?);
        found.owners.push(row.try_get("person")?);
    }
    Ok(found)
}

/// How other resources show a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserSummary {
    /// External ID of the user after merges; none for an anonymous user.
    pub external_id: Option<String>,
    /// Anonymous ID of the requested row itself, before merges.
    pub anonymous_id: Option<String>,
}

/// Returns how the users with these internal IDs are shown. Unknown IDs are omitted.
pub async fn summaries(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, UserSummary>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = "WITH RECURSIVE way AS (SELECT id AS start, id, merged_into, 0 AS hops FROM users WHERE project_id = $1 \
               AND id = ANY($2) UNION ALL SELECT w.start, u.id, u.merged_into, w.hops + 1 FROM way w \
               CROSS JOIN LATERAL (SELECT id, merged_into FROM users WHERE project_id = $1 \
               AND id = w.merged_into OFFSET 0) u WHERE w.hops < 16) SELECT w.start, u.external_id, s.anonymous_id \
               FROM way w CROSS JOIN LATERAL (SELECT external_id FROM users WHERE project_id = $1 \
               AND id = w.id OFFSET 0) u CROSS JOIN LATERAL (SELECT anonymous_id FROM users WHERE project_id = $1 \
               AND id = w.start OFFSET 0) s WHERE w.merged_into IS NULL";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &ids]).await?;
    let summary = |row: &Row| {
        Ok((
            row.try_get("start")?,
            UserSummary { external_id: row.try_get("external_id")?, anonymous_id: row.try_get("anonymous_id")? },
        ))
    };
    rows.iter().map(summary).collect()
}
