//! Devices that receive a user's push messages. A token belongs to one user of a project.

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use crate::users::record::ProjectUserId;
use database::StoreError;
use database::by_project::{self, ByProject};
use database::filter::{Filter, PageQuery, PageStart, Total};
use domain::push_token::Platform;
use kernel::ids::ProjectId;

/// Tokens removed by one statement.
const DELETE_BATCH: i64 = 10_000;

/// A device.
#[derive(Clone, Debug, PartialEq)]
pub struct PushToken {
    /// Derived by [`domain::push_token::id`].
    pub id: Uuid,
    pub user_id: Uuid,
    pub platform: Platform,
    /// The device's token, or the JSON of a browser's subscription.
    pub token: String,
    pub created_at: Timestamp,
    /// Time of the last registration.
    pub updated_at: Timestamp,
}

/// A registration or removal of a token.
#[derive(Clone, Debug)]
pub struct TokenChange<'a> {
    pub project: ProjectId,
    pub id: Uuid,
    /// None if the token was removed from its user.
    pub device: Option<Device<'a>>,
    /// Time at which the API accepted it.
    pub at: Timestamp,
    /// Sequence in the stream, which orders items that were accepted in the same millisecond.
    pub seq: i64,
}

/// The user to whom a token is registered.
#[derive(Clone, Debug)]
pub struct Device<'a> {
    pub user_id: Uuid,
    pub platform: Platform,
    pub token: &'a str,
}

/// Stores registrations and removals: one per token, sorted by project and ID.
///
/// The latest one of a token wins in whatever order they arrive, because each user's items arrive through that user's
/// partition. For this reason a removed token keeps its row, without the token text.
pub async fn store(tx: &Transaction<'_>, changes: &[TokenChange<'_>]) -> Result<(), StoreError> {
    if changes.is_empty() {
        return Ok(());
    }
    let projects: Vec<ProjectId> = changes.iter().map(|s| s.project).collect();
    let ids: Vec<Uuid> = changes.iter().map(|s| s.id).collect();
    let users: Vec<Option<Uuid>> = changes.iter().map(|s| Some(s.device.as_ref()?.user_id)).collect();
    let platforms: Vec<Option<&str>> = changes.iter().map(|s| Some(s.device.as_ref()?.platform.as_str())).collect();
    let tokens: Vec<Option<&str>> = changes.iter().map(|s| Some(s.device.as_ref()?.token)).collect();
    let times: Vec<Timestamp> = changes.iter().map(|s| s.at).collect();
    let seqs: Vec<i64> = changes.iter().map(|s| s.seq).collect();
    let sql = "INSERT INTO push_token AS old (project_id, id, user_id, platform, token, created_at, updated_at, said_seq) \
               SELECT p, i, u, f, t, a, a, s FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], \
               $6::timestamptz[], $7::bigint[]) AS v(p, i, u, f, t, a, s) \
               ON CONFLICT (project_id, id) DO UPDATE SET user_id = excluded.user_id, platform = excluded.platform, \
               token = excluded.token, updated_at = excluded.updated_at, said_seq = excluded.said_seq, \
               created_at = CASE WHEN old.user_id IS NULL THEN excluded.created_at ELSE old.created_at END \
               WHERE (excluded.updated_at, excluded.said_seq) >= (old.updated_at, old.said_seq)";
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(&statement, &[&projects, &ids, &users, &platforms, &tokens, &times, &seqs]).await?;
    Ok(())
}

/// Returns the platforms of the devices of these users, each with the user's ID.
pub async fn platforms_of(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
) -> Result<Vec<(Platform, Uuid)>, StoreError> {
    let sql = "SELECT DISTINCT platform, user_id FROM push_token WHERE project_id = $1 AND user_id = ANY($2)";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &ids]).await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let platform = Platform::parse(row.try_get("platform")?);
        found.extend(platform.map(|platform| Ok::<_, StoreError>((platform, row.try_get("user_id")?))).transpose()?);
    }
    Ok(found)
}

/// Removes the devices of users who are erased; their rows are kept.
pub async fn remove_all(tx: &Transaction<'_>, project: ProjectId, users: &[Uuid]) -> Result<(), StoreError> {
    let sql = "UPDATE push_token SET user_id = NULL, platform = NULL, token = NULL \
               WHERE project_id = $1 AND user_id = ANY($2)";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &users]).await?;
    Ok(())
}

/// Deletes the rows of tokens that were removed before `before`, when no earlier registration of them can still be in
/// flight.
///
/// Deletes in batches: there may be a million rows, and statements have a timeout.
pub async fn forget(db: &impl GenericClient, before: Timestamp) -> Result<(), StoreError> {
    let sql = "DELETE FROM push_token WHERE user_id IS NULL AND updated_at < $1 AND (project_id, id) IN \
               (SELECT project_id, id FROM push_token WHERE user_id IS NULL AND updated_at < $1 LIMIT $2)";
    let statement = db.prepare_cached(sql).await?;
    while db.execute(&statement, &[&before, &DELETE_BATCH]).await? >= DELETE_BATCH.unsigned_abs() {}
    Ok(())
}

/// Reassigns the tokens of merged users to the users they were merged into.
pub async fn reassign(tx: &Transaction<'_>, merges: &[(ProjectUserId, Uuid)]) -> Result<(), StoreError> {
    let sql = ByProject::new(
        "UPDATE push_token t SET user_id = v.i FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS v(p, f, i) \
         WHERE t.project_id = v.p AND t.user_id = v.f",
        &["v.p"],
    );
    let write = async |statement: Statement, part: &[(ProjectUserId, Uuid)]| {
        let (projects, from, into) = by_project::merge_columns(part);
        Ok(tx.execute(&statement, &[&projects, &from, &into]).await?)
    };
    by_project::each(tx, merges, |merge| merge.0.0, sql, write).await?;
    Ok(())
}

/// Removes tokens that their provider reports as gone, unless they were registered again after the given time
/// (`updated_at`).
///
/// Their rows are kept, as after any removal: an earlier registration may still be waiting to be recorded.
pub async fn remove_gone(
    db: &impl GenericClient,
    project: ProjectId,
    gone: &[(Uuid, Timestamp)],
) -> Result<(), StoreError> {
    let (ids, times): (Vec<Uuid>, Vec<Timestamp>) = gone.iter().copied().unzip();
    let sql = "UPDATE push_token t SET user_id = NULL, platform = NULL, token = NULL \
               FROM unnest($2::uuid[], $3::timestamptz[]) AS v(i, at) \
               WHERE t.project_id = $1 AND t.id = v.i AND t.updated_at <= v.at AND t.user_id IS NOT NULL";
    db.execute(&db.prepare_cached(sql).await?, &[&project, &ids, &times]).await?;
    Ok(())
}

/// Returns a user's devices, the most recently registered first.
pub async fn of_user(db: &impl GenericClient, project: ProjectId, user: Uuid) -> Result<Vec<PushToken>, StoreError> {
    let mut devices = of_users(db, project, &[user]).await?;
    Ok(devices.remove(&user).unwrap_or_default())
}

/// As [`of_user`], for many users.
pub async fn of_users(
    db: &impl GenericClient,
    project: ProjectId,
    users: &[Uuid],
) -> Result<HashMap<Uuid, Vec<PushToken>>, StoreError> {
    let mut devices: HashMap<Uuid, Vec<PushToken>> = HashMap::new();
    if users.is_empty() {
        return Ok(devices);
    }
    let sql = "SELECT id, user_id, platform, token, created_at, updated_at FROM push_token WHERE project_id = $1 \
               AND user_id = ANY($2) ORDER BY updated_at DESC, id";
    for row in db.query(&db.prepare_cached(sql).await?, &[&project, &users]).await? {
        let token = from_row(&row)?;
        devices.entry(token.user_id).or_default().push(token);
    }
    Ok(devices)
}

/// Filter of the list of devices.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceFilter {
    pub platform: Option<Platform>,
    /// The user's internal ID.
    pub user_id: Option<Uuid>,
}

impl DeviceFilter {
    fn conditions<'a>(&'a self, project: &'a ProjectId, platform: &'a &str) -> Filter<'a> {
        let mut filter = Filter::of(project);
        filter.and("user_id IS NOT NULL", &[]);
        if self.platform.is_some() {
            filter.and("platform = ?1", &[platform]);
        }
        if let Some(user_id) = &self.user_id {
            filter.and("user_id = ?1", &[user_id]);
        }
        filter
    }

    fn platform(&self) -> &'static str {
        self.platform.map_or("", Platform::as_str)
    }
}

/// Returns a page of devices, newest first.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    of: &DeviceFilter,
    start: &PageStart<(Timestamp, Uuid)>,
    limit: i64,
) -> Result<Vec<PushToken>, StoreError> {
    let platform = of.platform();
    let mut filter = of.conditions(&project, &platform);
    if let PageStart::After((at, id)) = start {
        filter.and("(created_at, id) < (?1, ?2)", &[at, id]);
    }
    let rows = PageQuery {
        columns: "id, user_id, platform, token, created_at, updated_at",
        table: "push_token",
        order: "created_at DESC, id DESC",
    };
    filter.page(db, rows, &start.offset(), &limit).await?.iter().map(from_row).collect()
}

pub async fn total(db: &impl GenericClient, project: ProjectId, of: &DeviceFilter) -> Result<Total, StoreError> {
    let platform = of.platform();
    of.conditions(&project, &platform).count_capped(db, "push_token").await
}

fn from_row(row: &Row) -> Result<PushToken, StoreError> {
    let platform: &str = row.try_get("platform")?;
    let unknown = || StoreError::Corrupt(format!("platform {platform:?}"));
    Ok(PushToken {
        id: row.try_get("id")?,
        user_id: row.try_get("user_id")?,
        platform: Platform::parse(platform).ok_or_else(unknown)?,
        token: row.try_get("token")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}
