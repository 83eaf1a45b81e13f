//! Stored memberships of followed segments, and when each may change with time.
//!
//! Rows are written only under the project's evaluation lock ([`try_lock`](super::follow::try_lock)); an erasure
//! deletes the rows of its users.

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use uuid::Uuid;

use super::user_facts::batch::Pair;
use database::StoreError;
use kernel::ids::ProjectId;

/// The content of a row; both fields are none if there is no row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// When the user entered the segment; none if they are not in it.
    pub since: Option<Timestamp>,
    /// When the membership may change with time.
    pub due_at: Option<Timestamp>,
}

fn split(pairs: &[Pair]) -> (Vec<Uuid>, Vec<Uuid>) {
    pairs.iter().copied().unzip()
}

/// Returns the states of these pairs. Pairs without a row are omitted.
pub async fn states(
    tx: &Transaction<'_>,
    project: ProjectId,
    pairs: &[Pair],
) -> Result<HashMap<Pair, State>, StoreError> {
    let (segments, users) = split(pairs);
    let sql = "SELECT m.segment_id, m.user_id, m.since, m.due_at FROM unnest($2::uuid[], $3::uuid[]) AS v(s, u) \
               JOIN segment_membership m ON m.project_id = $1 AND m.segment_id = v.s AND m.user_id = v.u";
    let rows = tx.query(&tx.prepare_cached(sql).await?, &[&project, &segments, &users]).await?;
    let state = |row: &tokio_postgres::Row| {
        Ok((
            (row.try_get("segment_id")?, row.try_get("user_id")?),
            State { since: row.try_get("since")?, due_at: row.try_get("due_at")? },
        ))
    };
    rows.iter().map(state).collect()
}

/// Inserts or updates rows, which must be sorted by pair.
pub async fn put(tx: &Transaction<'_>, project: ProjectId, rows: &[(Pair, State)]) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let (segments, users): (Vec<Uuid>, Vec<Uuid>) = rows.iter().map(|(pair, _)| *pair).unzip();
    let since: Vec<Option<Timestamp>> = rows.iter().map(|(_, state)| state.since).collect();
    let due: Vec<Option<Timestamp>> = rows.iter().map(|(_, state)| state.due_at).collect();
    let sql = "INSERT INTO segment_membership (project_id, segment_id, user_id, since, due_at) \
               SELECT $1::uuid, s, u, a, d FROM unnest($2::uuid[], $3::uuid[], $4::timestamptz[], $5::timestamptz[]) AS v(s, u, a, d) \
               ON CONFLICT (project_id, segment_id, user_id) DO UPDATE SET since = excluded.since, due_at = excluded.due_at";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &segments, &users, &since, &due]).await?;
    Ok(())
}

pub async fn remove(tx: &Transaction<'_>, project: ProjectId, pairs: &[Pair]) -> Result<(), StoreError> {
    if pairs.is_empty() {
        return Ok(());
    }
    let (segments, users) = split(pairs);
    let sql = "DELETE FROM segment_membership m USING unnest($2::uuid[], $3::uuid[]) AS v(s, u) \
               WHERE m.project_id = $1 AND m.segment_id = v.s AND m.user_id = v.u";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &segments, &users]).await?;
    Ok(())
}

/// Returns up to `max` pairs that are due to be evaluated, longest due first.
pub async fn due(tx: &Transaction<'_>, project: ProjectId, now: Timestamp, max: i64) -> Result<Vec<Pair>, StoreError> {
    let sql = "SELECT segment_id, user_id FROM segment_membership WHERE project_id = $1 AND due_at <= $2 \
               ORDER BY due_at LIMIT $3";
    let rows = tx.query(&tx.prepare_cached(sql).await?, &[&project, &now, &max]).await?;
    rows.iter().map(|row| Ok((row.try_get("segment_id")?, row.try_get("user_id")?))).collect()
}

/// Clears the due times of these pairs: their segment is being evaluated as a whole, or removed.
pub async fn clear_due(tx: &Transaction<'_>, project: ProjectId, pairs: &[Pair]) -> Result<(), StoreError> {
    if pairs.is_empty() {
        return Ok(());
    }
    let (segments, users) = split(pairs);
    let sql = "UPDATE segment_membership m SET due_at = NULL FROM unnest($2::uuid[], $3::uuid[]) AS v(s, u) \
               WHERE m.project_id = $1 AND m.segment_id = v.s AND m.user_id = v.u";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &segments, &users]).await?;
    Ok(())
}

/// Moves the rows of merged users to the users they were merged into. `merges` holds sorted pairs of both.
///
/// If both users have a row, the earlier times are kept.
pub async fn merge(tx: &Transaction<'_>, project: ProjectId, merges: &[(Uuid, Uuid)]) -> Result<(), StoreError> {
    if merges.is_empty() {
        return Ok(());
    }
    let (from, into) = split(merges);
    let sql = "WITH moved AS (DELETE FROM segment_membership m USING unnest($2::uuid[], $3::uuid[]) AS v(f, i) \
               WHERE m.project_id = $1 AND m.user_id = v.f RETURNING m.segment_id, v.i AS person, m.since, m.due_at) \
               INSERT INTO segment_membership (project_id, segment_id, user_id, since, due_at) \
               SELECT $1::uuid, segment_id, person, min(since), min(due_at) FROM moved GROUP BY segment_id, person \
               ON CONFLICT (project_id, segment_id, user_id) DO UPDATE \
               SET since = least(segment_membership.since, excluded.since), \
               due_at = least(segment_membership.due_at, excluded.due_at)";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &from, &into]).await?;
    Ok(())
}

/// Deletes the rows of users who no longer exist.
pub async fn remove_users(tx: &Transaction<'_>, project: ProjectId, users: &[Uuid]) -> Result<(), StoreError> {
    if users.is_empty() {
        return Ok(());
    }
    let sql = "DELETE FROM segment_membership WHERE project_id = $1 AND user_id = ANY($2)";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &users]).await?;
    Ok(())
}

/// Returns the users who have a row of a segment, after one user ID and up to and including another. Both bounds are
/// optional.
pub async fn users_between(
    tx: &Transaction<'_>,
    project: ProjectId,
    segment: Uuid,
    (after, to): (Option<Uuid>, Option<Uuid>),
) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT user_id FROM segment_membership WHERE project_id = $1 AND segment_id = $2 \
               AND user_id > $3 AND user_id <= $4 ORDER BY user_id";
    let (after, to) = (after.unwrap_or(Uuid::nil()), to.unwrap_or(Uuid::max()));
    let rows = tx.query(&tx.prepare_cached(sql).await?, &[&project, &segment, &after, &to]).await?;
    rows.iter().map(|row| Ok(row.try_get("user_id")?)).collect()
}

/// Removes up to `max` rows of a segment; returns how many.
pub async fn clear(tx: &Transaction<'_>, project: ProjectId, segment: Uuid, max: i64) -> Result<u64, StoreError> {
    let sql = "DELETE FROM segment_membership WHERE project_id = $1 AND segment_id = $2 AND user_id = ANY(ARRAY(\
               SELECT user_id FROM segment_membership WHERE project_id = $1 AND segment_id = $2 LIMIT $3))";
    Ok(tx.execute(&tx.prepare_cached(sql).await?, &[&project, &segment, &max]).await?)
}

/// Counts the stored members of a segment.
pub async fn count(db: &impl GenericClient, project: ProjectId, segment: Uuid) -> Result<i64, StoreError> {
    let sql = "SELECT count(*) AS total FROM segment_membership WHERE project_id = $1 AND segment_id = $2 \
               AND since IS NOT NULL";
    Ok(db.query_one(&db.prepare_cached(sql).await?, &[&project, &segment]).await?.try_get("total")?)
}
