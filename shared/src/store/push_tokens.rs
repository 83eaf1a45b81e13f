//! The devices that take a person's pushes. A token belongs to one person of a project.

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::StoreError;
use super::users::record::PersonKey;
use crate::ids::ProjectId;
use crate::push_token::Platform;

/// A device.
#[derive(Clone, Debug, PartialEq)]
pub struct PushToken {
    /// By [`crate::push_token::id`].
    pub id: Uuid,
    pub user_id: Uuid,
    pub platform: Platform,
    /// The device's token, or the JSON of a browser's subscription.
    pub token: String,
    pub created_at: Timestamp,
    /// When it was last registered.
    pub updated_at: Timestamp,
}

/// A token as it was registered.
#[derive(Clone, Debug)]
pub struct Registration<'a> {
    pub project: ProjectId,
    pub id: Uuid,
    pub user_id: Uuid,
    pub platform: Platform,
    pub token: &'a str,
    pub at: Timestamp,
}

/// Keeps tokens; those that are known move to the person named now. Sorted by project and id.
pub async fn register(tx: &Transaction<'_>, new: &[Registration<'_>]) -> Result<(), StoreError> {
    if new.is_empty() {
        return Ok(());
    }
    let projects: Vec<ProjectId> = new.iter().map(|r| r.project).collect();
    let ids: Vec<Uuid> = new.iter().map(|r| r.id).collect();
    let users: Vec<Uuid> = new.iter().map(|r| r.user_id).collect();
    let platforms: Vec<&str> = new.iter().map(|r| r.platform.as_str()).collect();
    let tokens: Vec<&str> = new.iter().map(|r| r.token).collect();
    let times: Vec<Timestamp> = new.iter().map(|r| r.at).collect();
    let sql = "INSERT INTO push_token (project_id, id, user_id, platform, token, created_at, updated_at) \
               SELECT p, i, u, f, t, a, a FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::timestamptz[]) \
               AS v(p, i, u, f, t, a) ON CONFLICT (project_id, id) DO UPDATE SET user_id = excluded.user_id, \
               platform = excluded.platform, token = excluded.token, updated_at = excluded.updated_at";
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(&statement, &[&projects, &ids, &users, &platforms, &tokens, &times]).await?;
    Ok(())
}

/// The platforms of these people's devices, each with whose it is.
pub async fn platforms_of(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
) -> Result<Vec<(Platform, Uuid)>, StoreError> {
    let sql = "SELECT DISTINCT platform, user_id FROM push_token WHERE project_id = $1 AND user_id = ANY($2)";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &ids]).await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let platform = Platform::parse(row.try_get(0)?);
        found.extend(platform.map(|platform| Ok::<_, StoreError>((platform, row.try_get(1)?))).transpose()?);
    }
    Ok(found)
}

/// Forgets tokens; unknown ids are ignored. Sorted by project and id.
pub async fn remove(db: &impl GenericClient, tokens: &[(ProjectId, Uuid)]) -> Result<(), StoreError> {
    if tokens.is_empty() {
        return Ok(());
    }
    let (projects, ids): (Vec<ProjectId>, Vec<Uuid>) = tokens.iter().copied().unzip();
    let sql = "DELETE FROM push_token t USING unnest($1::uuid[], $2::uuid[]) AS v(p, i) \
               WHERE t.project_id = v.p AND t.id = v.i";
    db.execute(&db.prepare_cached(sql).await?, &[&projects, &ids]).await?;
    Ok(())
}

/// The tokens of people who were merged are those of whom they became.
pub async fn reassign(tx: &Transaction<'_>, merges: &[(PersonKey, Uuid)]) -> Result<(), StoreError> {
    if merges.is_empty() {
        return Ok(());
    }
    let projects: Vec<ProjectId> = merges.iter().map(|m| m.0.0).collect();
    let from: Vec<Uuid> = merges.iter().map(|m| m.0.1).collect();
    let into: Vec<Uuid> = merges.iter().map(|m| m.1).collect();
    let sql = "UPDATE push_token t SET user_id = v.i FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS v(p, f, i) \
               WHERE t.project_id = v.p AND t.user_id = v.f";
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(&statement, &[&projects, &from, &into]).await?;
    Ok(())
}

/// Forgets tokens that their provider calls gone, unless they were registered again since (`updated_at`).
pub async fn remove_gone(
    db: &impl GenericClient,
    project: ProjectId,
    gone: &[(Uuid, Timestamp)],
) -> Result<(), StoreError> {
    let (ids, times): (Vec<Uuid>, Vec<Timestamp>) = gone.iter().copied().unzip();
    let sql = "DELETE FROM push_token t USING unnest($2::uuid[], $3::timestamptz[]) AS v(i, at) \
               WHERE t.project_id = $1 AND t.id = v.i AND t.updated_at <= v.at";
    db.execute(&db.prepare_cached(sql).await?, &[&project, &ids, &times]).await?;
    Ok(())
}

/// A person's devices, the last registered first.
pub async fn of_person(
    db: &impl GenericClient,
    project: ProjectId,
    person: Uuid,
) -> Result<Vec<PushToken>, StoreError> {
    let mut devices = of_people(db, project, &[person]).await?;
    Ok(devices.remove(&person).unwrap_or_default())
}

/// As [`of_person`], of many.
pub async fn of_people(
    db: &impl GenericClient,
    project: ProjectId,
    people: &[Uuid],
) -> Result<HashMap<Uuid, Vec<PushToken>>, StoreError> {
    let mut devices: HashMap<Uuid, Vec<PushToken>> = HashMap::new();
    if people.is_empty() {
        return Ok(devices);
    }
    let sql = "SELECT id, user_id, platform, token, created_at, updated_at FROM push_token \
               WHERE project_id = $1 AND user_id = ANY($2) ORDER BY updated_at DESC, id";
    for row in db.query(&db.prepare_cached(sql).await?, &[&project, &people]).await? {
        let token = from_row(&row)?;
        devices.entry(token.user_id).or_default().push(token);
    }
    Ok(devices)
}

fn from_row(row: &Row) -> Result<PushToken, StoreError> {
    let platform: &str = row.try_get(2)?;
    let unknown = || StoreError::Corrupt(format!("platform {platform:?}"));
    Ok(PushToken {
        id: row.try_get(0)?,
        user_id: row.try_get(1)?,
        platform: Platform::parse(platform).ok_or_else(unknown)?,
        token: row.try_get(3)?,
        created_at: row.try_get(4)?,
        updated_at: row.try_get(5)?,
    })
}
