//! Reading people. Whoever was merged is found as the person that they became.

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::users::user_ref::UserRef;
use database::StoreError;
use kernel::ids::ProjectId;

/// A person.
#[derive(Clone, Debug, PartialEq)]
pub struct User {
    pub id: Uuid,
    pub external_id: Option<String>,
    pub anonymous_id: Option<String>,
    pub email: Option<String>,
    pub name: Option<String>,
    /// An object.
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

/// The user whom a request names.
pub async fn find(db: &impl GenericClient, project: ProjectId, user: UserRef<'_>) -> Result<Option<User>, StoreError> {
    row_of(db, project, find_id(db, project, user).await?).await
}

/// As [`find`], or the anonymous user with this id: for reading only.
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

/// A person by their own internal id; whoever was merged is not found.
pub async fn get(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<User>, StoreError> {
    let sql = "SELECT id, external_id, anonymous_id, email, name, properties, created_at, last_seen_at, updated_at \
               FROM users WHERE project_id = $1 AND id = $2 AND merged_into IS NULL";
    db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// As [`find`], the internal id only.
pub async fn find_id(
    db: &impl GenericClient,
    project: ProjectId,
    user: UserRef<'_>,
) -> Result<Option<Uuid>, StoreError> {
    first_of(db, project, user.candidates(project)).await
}

/// As [`find_readable`], the internal id only.
pub async fn find_readable_id(
    db: &impl GenericClient,
    project: ProjectId,
    user: UserRef<'_>,
) -> Result<Option<Uuid>, StoreError> {
    first_of(db, project, user.readable(project)).await
}

/// The first of these ids that leads to a person.
///
/// The ids of merged people point to whom they became; a pointer is followed to its end. Each is looked up by itself, which
/// `OFFSET 0` insists on, here and below: the planner, who does not know how large a project is, would rather read through
/// all its people.
async fn first_of(
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

/// Keeps a person from being merged or erased until the end of the transaction; says whether they are there, under no other
/// name.
pub async fn hold(tx: &Transaction<'_>, project: ProjectId, person: Uuid) -> Result<bool, StoreError> {
    let sql = "SELECT FROM users WHERE project_id = $1 AND id = $2 AND merged_into IS NULL FOR SHARE";
    Ok(tx.query_opt(&tx.prepare_cached(sql).await?, &[&project, &person]).await?.is_some())
}

/// The user whom an internal id leads to.
pub async fn follow(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<User>, StoreError> {
    row_of(db, project, resolve(db, project, id).await?).await
}

/// As [`follow`], the internal id only.
pub async fn resolve(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<Uuid>, StoreError> {
    let sql = "WITH RECURSIVE way AS (SELECT id AS start, id, merged_into, 0 AS hops FROM users WHERE project_id = $1 \
               AND id = ANY($2) UNION ALL SELECT w.start, u.id, u.merged_into, w.hops + 1 FROM way w \
               CROSS JOIN LATERAL (SELECT id, merged_into FROM users WHERE project_id = $1 \
               AND id = w.merged_into OFFSET 0) u WHERE w.hops < 16) SELECT id FROM way WHERE merged_into IS NULL";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &vec![id]]).await?;
    row.map_or(Ok(None), |row| Ok(row.try_get("id")?))
}

/// Every internal id of a person: their own and those that were merged into it.
pub async fn all_ids(db: &impl GenericClient, project: ProjectId, person: Uuid) -> Result<Vec<Uuid>, StoreError> {
    // UNION, not UNION ALL: it ends whatever the rows hold.
    let sql = "WITH RECURSIVE own AS (SELECT $2::uuid AS id UNION SELECT u.id FROM own o CROSS JOIN LATERAL \
               (SELECT id FROM users WHERE project_id = $1 AND merged_into = o.id OFFSET 0) u) SELECT id FROM own";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &person]).await?;
    rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// The people to whom internal ids lead, by id; who is not there is left out.
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

/// As [`get`], many at once.
pub async fn get_all(db: &impl GenericClient, project: ProjectId, ids: &[Uuid]) -> Result<Vec<User>, StoreError> {
    let sql = "SELECT id, external_id, anonymous_id, email, name, properties, created_at, last_seen_at, updated_at \
               FROM users WHERE project_id = $1 AND id = ANY($2) AND merged_into IS NULL";
    db.query(&db.prepare_cached(sql).await?, &[&project, &ids]).await?.iter().map(from_row).collect()
}

/// The ids of the next people behind one, in the order of their ids.
pub async fn ids_after(
    db: &impl GenericClient,
    project: ProjectId,
    after: Option<Uuid>,
    most: i64,
) -> Result<Vec<Uuid>, StoreError> {
    let after = after.unwrap_or_default();
    let sql = "SELECT id FROM users WHERE project_id = $1 AND id > $2 AND merged_into IS NULL ORDER BY id LIMIT $3";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &after, &most]).await?;
    rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// The id of the `width`-th user behind an id, in the order of ids; none where there are fewer.
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

/// Ids, and whose each of them is.
#[derive(Debug, Default)]
pub struct IdsOf {
    pub ids: Vec<Uuid>,
    pub people: Vec<Uuid>,
}

/// As [`all_ids`], of many.
pub async fn all_ids_of(db: &impl GenericClient, project: ProjectId, people: &[Uuid]) -> Result<IdsOf, StoreError> {
    let sql = "WITH RECURSIVE own AS (SELECT p AS id, p AS person FROM unnest($2::uuid[]) AS p UNION \
               SELECT u.id, o.person FROM own o CROSS JOIN LATERAL (SELECT id FROM users WHERE project_id = $1 \
               AND merged_into = o.id OFFSET 0) u) SELECT id, person FROM own";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &people]).await?;
    let mut found = IdsOf { ids: Vec::with_capacity(rows.len()), people: Vec::with_capacity(rows.len()) };
    for row in rows {
        found.ids.push(row.try_get("id")?);
        found.people.push(row.try_get("person")?);
    }
    Ok(found)
}

/// How a person is shown in other resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownPerson {
    /// Of the person that they became; none for somebody known only anonymously.
    pub external_id: Option<String>,
    /// Of the row asked for itself.
    pub anonymous_id: Option<String>,
}

/// How the people of these internal ids are shown. Unknown ids are left out.
pub async fn shown(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, ShownPerson>, StoreError> {
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
    let person = |row: &Row| {
        Ok((
            row.try_get("start")?,
            ShownPerson { external_id: row.try_get("external_id")?, anonymous_id: row.try_get("anonymous_id")? },
        ))
    };
    rows.iter().map(person).collect()
}
