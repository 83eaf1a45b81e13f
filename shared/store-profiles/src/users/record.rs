//! The recording transaction's statements on users.

use std::collections::HashSet;

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use super::seen::SeenDeltas;
use database::StoreError;
use database::by_project::{self, ByProject};
use kernel::ids::ProjectId;

/// A user within a project.
pub type ProjectUserId = (ProjectId, Uuid);

/// A user as an item identifies them, to be created if they do not exist.
#[derive(Clone, Debug)]
pub struct NewUser {
    pub key: ProjectUserId,
    pub external_id: Option<String>,
    pub anonymous_id: Option<String>,
    pub seen: Timestamp,
}

/// The columns of a user that the recording transaction changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    pub key: ProjectUserId,
    pub external_id: Option<String>,
    pub anonymous_id: Option<String>,
    pub email: Option<String>,
    pub name: Option<String>,
    pub properties: Map<String, Value>,
    pub merged_into: Option<Uuid>,
    pub merged_at: Option<Timestamp>,
    pub last_seen_at: Timestamp,
}

fn split(keys: &[ProjectUserId]) -> (Vec<ProjectId>, Vec<Uuid>) {
    keys.iter().copied().unzip()
}

/// Creates the users that do not exist; returns their keys. `users` must be sorted by key, so that transactions cannot
/// deadlock.
pub async fn insert_missing(tx: &Transaction<'_>, users: &[NewUser]) -> Result<HashSet<ProjectUserId>, StoreError> {
    if users.is_empty() {
        return Ok(HashSet::new());
    }
    let keys: Vec<ProjectUserId> = users.iter().map(|p| p.key).collect();
    let (projects, ids) = split(&keys);
    let external: Vec<Option<&str>> = users.iter().map(|p| p.external_id.as_deref()).collect();
    let anonymous: Vec<Option<&str>> = users.iter().map(|p| p.anonymous_id.as_deref()).collect();
    let seen: Vec<Timestamp> = users.iter().map(|p| p.seen).collect();
    let sql = "INSERT INTO users (project_id, id, external_id, anonymous_id, created_at, last_seen_at, updated_at) \
               SELECT p, i, e, a, s, s, s FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[]) AS v(p, i, e, a, s) \
               ON CONFLICT (project_id, id) DO NOTHING RETURNING project_id, id";
    let statement = tx.prepare_cached(sql).await?;
    let rows = tx.query(&statement, &[&projects, &ids, &external, &anonymous, &seen]).await?;
    rows.iter().map(|r| Ok((r.try_get("project_id")?, r.try_get("id")?))).collect()
}

/// An existing user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExistingUser {
    pub key: ProjectUserId,
    pub merged_into: Option<Uuid>,
    pub merged_at: Option<Timestamp>,
    pub last_seen_at: Timestamp,
}

/// Returns those of these users who exist.
pub async fn find(tx: &Transaction<'_>, keys: &[ProjectUserId]) -> Result<Vec<ExistingUser>, StoreError> {
    let sql = ByProject::new(
        "SELECT u.project_id, u.id, u.merged_into, u.merged_at, u.last_seen_at \
         FROM unnest($1::uuid[], $2::uuid[]) AS v(p, i) JOIN users u ON u.project_id = v.p AND u.id = v.i",
        &["v.p"],
    );
    let found = |r: &Row| {
        let key = (r.try_get("project_id")?, r.try_get("id")?);
        Ok(ExistingUser {
            key,
            merged_into: r.try_get("merged_into")?,
            merged_at: r.try_get("merged_at")?,
            last_seen_at: r.try_get("last_seen_at")?,
        })
    };
    let read = async |statement: Statement, part: &[ProjectUserId]| {
        let (projects, ids) = split(part);
        tx.query(&statement, &[&projects, &ids]).await?.iter().map(found).collect::<Result<Vec<_>, _>>()
    };
    Ok(by_project::each(tx, keys, |key| key.0, sql, read).await?.concat())
}

/// Locks users until the end of the transaction and returns them. The keys must be sorted.
pub async fn lock(tx: &Transaction<'_>, keys: &[ProjectUserId]) -> Result<Vec<Profile>, StoreError> {
    let sql = ByProject::new(
        "SELECT u.project_id, u.id, u.external_id, u.anonymous_id, u.email, u.name, u.properties, u.merged_into, \
         u.merged_at, u.last_seen_at FROM unnest($1::uuid[], $2::uuid[]) AS v(p, i) JOIN users u \
         ON u.project_id = v.p AND u.id = v.i ORDER BY u.project_id, u.id FOR UPDATE OF u",
        &["v.p"],
    );
    let lock = async |statement: Statement, part: &[ProjectUserId]| {
        let (projects, ids) = split(part);
        tx.query(&statement, &[&projects, &ids]).await?.iter().map(from_row).collect::<Result<Vec<_>, _>>()
    };
    Ok(by_project::each(tx, keys, |key| key.0, sql, lock).await?.into_iter().flatten().collect())
}

fn from_row(row: &Row) -> Result<Profile, StoreError> {
    let properties: Value = row.try_get("properties")?;
    Ok(Profile {
        key: (row.try_get("project_id")?, row.try_get("id")?),
        external_id: row.try_get("external_id")?,
        anonymous_id: row.try_get("anonymous_id")?,
        email: row.try_get("email")?,
        name: row.try_get("name")?,
        properties: properties.as_object().cloned().unwrap_or_default(),
        merged_into: row.try_get("merged_into")?,
        merged_at: row.try_get("merged_at")?,
        last_seen_at: row.try_get("last_seen_at")?,
    })
}

/// Writes users that were locked by [`lock`].
pub async fn update(tx: &Transaction<'_>, profiles: &[&Profile], now: Timestamp) -> Result<(), StoreError> {
    let sql = ByProject::new(
        "UPDATE users u SET anonymous_id = v.a, email = v.e, name = v.n, properties = v.j, merged_into = v.m, \
         merged_at = v.t, last_seen_at = greatest(u.last_seen_at, v.s), updated_at = $10 \
         FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::jsonb[], $7::uuid[], \
         $8::timestamptz[], $9::timestamptz[]) AS v(p, i, a, e, n, j, m, t, s) WHERE u.project_id = v.p \
         AND u.id = v.i",
        &["v.p"],
    );
    let write = async |statement: Statement, part: &[&Profile]| {
        let keys: Vec<ProjectUserId> = part.iter().map(|p| p.key).collect();
        let (projects, ids) = split(&keys);
        let anonymous: Vec<Option<&str>> = part.iter().map(|p| p.anonymous_id.as_deref()).collect();
        let emails: Vec<Option<&str>> = part.iter().map(|p| p.email.as_deref()).collect();
        let names: Vec<Option<&str>> = part.iter().map(|p| p.name.as_deref()).collect();
        let properties: Vec<Value> = part.iter().map(|p| Value::Object(p.properties.clone())).collect();
        let into: Vec<Option<Uuid>> = part.iter().map(|p| p.merged_into).collect();
        let merged_at: Vec<Option<Timestamp>> = part.iter().map(|p| p.merged_at).collect();
        let seen: Vec<Timestamp> = part.iter().map(|p| p.last_seen_at).collect();
        let columns: [&(dyn ToSql + Sync); 10] =
            [&projects, &ids, &anonymous, &emails, &names, &properties, &into, &merged_at, &seen, &now];
        Ok(tx.execute(&statement, &columns).await?)
    };
    by_project::each(tx, profiles, |profile| profile.key.0, sql, write).await?;
    Ok(())
}

/// Updates when users were last seen, at most once a minute each, so that most events write no row. Returns the
/// resulting changes in the number of users by day last seen.
///
/// Skips rows locked by another transaction, which updates them itself, so that no transaction waits for a timestamp.
pub async fn touch(tx: &Transaction<'_>, seen: &[(ProjectUserId, Timestamp)]) -> Result<SeenDeltas, StoreError> {
    let mut moves = SeenDeltas::default();
    let sql = ByProject::new(
        "WITH stale AS (SELECT u.project_id, u.id, v.s, u.seen_day \
         FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) AS v(p, i, s) JOIN users u ON u.project_id = v.p \
         AND u.id = v.i WHERE u.last_seen_at < v.s - interval '1 minute' \
         FOR UPDATE OF u SKIP LOCKED), noted AS (UPDATE users u SET last_seen_at = greatest(u.last_seen_at, stale.s) \
         FROM stale WHERE u.project_id = stale.project_id AND u.id = stale.id \
         RETURNING u.project_id, stale.seen_day AS before, u.seen_day AS after, u.merged_into) \
         SELECT project_id, before, after, count(*) AS people FROM noted WHERE merged_into IS NULL \
         AND before <> after GROUP BY 1, 2, 3",
        &["v.p", "stale.project_id"],
    );
    let note = async |statement: Statement, part: &[(ProjectUserId, Timestamp)]| {
        let keys: Vec<ProjectUserId> = part.iter().map(|s| s.0).collect();
        let (projects, ids) = split(&keys);
        let times: Vec<Timestamp> = part.iter().map(|s| s.1).collect();
        Ok(tx.query(&statement, &[&projects, &ids, &times]).await?)
    };
    for row in by_project::each(tx, seen, |s| s.0.0, sql, note).await?.into_iter().flatten() {
        let (project, users): (ProjectId, i64) = (row.try_get("project_id")?, row.try_get("people")?);
        moves.add(project, row.try_get("before")?, -users);
        moves.add(project, row.try_get("after")?, users);
    }
    Ok(moves)
}

/// Adds to the exact number of users. Concurrent recorders use different `lane`s, so that they do not wait for each
/// other's row.
pub async fn count(tx: &Transaction<'_>, lane: i16, deltas: &[(ProjectId, i64)]) -> Result<(), StoreError> {
    if deltas.is_empty() {
        return Ok(());
    }
    let (projects, counts): (Vec<ProjectId>, Vec<i64>) = deltas.iter().copied().unzip();
    let sql = "INSERT INTO user_count (project_id, lane, count) SELECT p, $3, c FROM unnest($1::uuid[], $2::bigint[]) AS v(p, c) \
               ON CONFLICT (project_id, lane) DO UPDATE SET count = user_count.count + excluded.count";
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(&statement, &[&projects, &counts, &lane]).await?;
    Ok(())
}
