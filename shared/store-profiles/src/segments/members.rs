//! Lists of manual segments.

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use uuid::Uuid;

use crate::users::user_ref::{IdType, UserRef};
use database::StoreError;
use kernel::ids::ProjectId;

/// Returns the users with these IDs, by the given text. Unknown users are omitted.
///
/// A merged user is returned under the requested ID: reading a list resolves it to the user they were merged into.
pub async fn find(
    tx: &Transaction<'_>,
    project: ProjectId,
    texts: &[&str],
    id_type: IdType,
) -> Result<HashMap<String, Uuid>, StoreError> {
    let candidates = |text: &str| UserRef::new(text, id_type).candidates(project);
    let mut all: Vec<Uuid> = texts.iter().flat_map(|text| candidates(text)).collect();
    all.sort_unstable();
    all.dedup();
    let sql = "SELECT id FROM users WHERE project_id = $1 AND id = ANY($2)";
    let rows = tx.query(sql, &[&project, &all]).await?;
    let existing: std::collections::HashSet<Uuid> =
        rows.iter().map(|row| row.try_get("id")).collect::<Result<_, tokio_postgres::Error>>()?;
    let found = |text: &&str| {
        let id = candidates(text).into_iter().find(|id| existing.contains(id))?;
        Some(((*text).to_owned(), id))
    };
    Ok(texts.iter().filter_map(found).collect())
}

/// Adds users to a list; returns how many were not on it.
pub async fn add(
    tx: &Transaction<'_>,
    project: ProjectId,
    segment: Uuid,
    users: &[Uuid],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let sql = "INSERT INTO segment_member (project_id, segment_id, user_id, added_at) \
               SELECT DISTINCT $1::uuid, $2::uuid, p, $4::timestamptz FROM unnest($3::uuid[]) AS p \
               ON CONFLICT (project_id, segment_id, user_id) DO NOTHING";
    Ok(tx.execute(sql, &[&project, &segment, &users, &now]).await?)
}

/// Removes users from a list, under all of their IDs; returns the number of rows removed.
pub async fn remove(
    tx: &Transaction<'_>,
    project: ProjectId,
    segment: Uuid,
    users: &[Uuid],
) -> Result<u64, StoreError> {
    let sql = "WITH RECURSIVE root AS (SELECT p AS id FROM unnest($3::uuid[]) AS p \
               UNION SELECT u.merged_into FROM root r CROSS JOIN LATERAL (SELECT merged_into FROM users \
               WHERE project_id = $1 AND id = r.id AND merged_into IS NOT NULL OFFSET 0) u), \
               own AS (SELECT id FROM root UNION SELECT u.id FROM own o CROSS JOIN LATERAL \
               (SELECT id FROM users WHERE project_id = $1 AND merged_into = o.id OFFSET 0) u) \
               DELETE FROM segment_member WHERE project_id = $1 AND segment_id = $2 AND user_id IN (SELECT id FROM own)";
    Ok(tx.execute(sql, &[&project, &segment, &users]).await?)
}

/// Returns the lists that contain these IDs, as pairs of a segment and an ID.
pub async fn lists_of(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
) -> Result<Vec<(Uuid, Uuid)>, StoreError> {
    let sql = "SELECT segment_id, user_id FROM segment_member WHERE project_id = $1 AND user_id = ANY($2)";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &ids]).await?;
    rows.iter().map(|row| Ok((row.try_get("segment_id")?, row.try_get("user_id")?))).collect()
}
