//! Subscription groups: categories of messages that users can subscribe to or unsubscribe from.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use kernel::ids::ProjectId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionGroup {
    pub id: Uuid,
    pub name: String,
    pub description: String,
    /// Whether users without a choice of their own are subscribed.
    pub default_subscribed: bool,
    /// Whether the preference page shows the group.
    pub public: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

pub(super) fn from_row(row: &Row) -> Result<SubscriptionGroup, StoreError> {
    Ok(SubscriptionGroup {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        description: row.try_get("description")?,
        default_subscribed: row.try_get("default_subscribed")?,
        public: row.try_get("public")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}

pub async fn get(
    db: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
) -> Result<Option<SubscriptionGroup>, StoreError> {
    let sql = "SELECT g.id, g.name, g.description, g.default_subscribed, g.public, g.created_at, g.updated_at \
               FROM subscription_group g WHERE g.project_id = $1 AND g.id = $2 AND g.deleted_at IS NULL";
    db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// As [`get`], and locks the row until the end of the transaction, for a read-modify-write.
pub async fn get_for_update(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
) -> Result<Option<SubscriptionGroup>, StoreError> {
    let sql = "SELECT g.id, g.name, g.description, g.default_subscribed, g.public, g.created_at, g.updated_at \
               FROM subscription_group g WHERE g.project_id = $1 AND g.id = $2 AND g.deleted_at IS NULL FOR UPDATE";
    tx.query_opt(sql, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// Returns all groups of a project, oldest first.
pub async fn list(db: &impl GenericClient, project: ProjectId) -> Result<Vec<SubscriptionGroup>, StoreError> {
    let sql = "SELECT g.id, g.name, g.description, g.default_subscribed, g.public, g.created_at, g.updated_at \
               FROM subscription_group g WHERE g.project_id = $1 AND g.deleted_at IS NULL ORDER BY g.id";
    db.query(&db.prepare_cached(sql).await?, &[&project]).await?.iter().map(from_row).collect()
}

/// Returns those of these groups that exist, locked against deletion until the end of the transaction.
pub async fn existing(tx: &Transaction<'_>, project: ProjectId, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT id FROM subscription_group WHERE project_id = $1 AND id = ANY($2) AND deleted_at IS NULL \
               ORDER BY id FOR SHARE";
    tx.query(sql, &[&project, &ids]).await?.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// Returns the number of groups, and prevents other transactions from creating one until the end of this transaction.
pub async fn count_and_lock(tx: &Transaction<'_>, project: ProjectId) -> Result<i64, StoreError> {
    let key = format!("subscription groups of {}", project.0);
    tx.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", &[&key]).await?;
    let sql = "SELECT count(*) AS total FROM subscription_group WHERE project_id = $1 AND deleted_at IS NULL";
    Ok(tx.query_one(sql, &[&project]).await?.try_get("total")?)
}

pub async fn insert(tx: &Transaction<'_>, project: ProjectId, new: &SubscriptionGroup) -> Result<(), StoreError> {
    let sql = "INSERT INTO subscription_group (project_id, id, name, description, default_subscribed, public, created_at, \
               updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let g = new;
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 8] =
        [&project, &g.id, &g.name, &g.description, &g.default_subscribed, &g.public, &g.created_at, &g.updated_at];
    tx.execute(sql, &params).await?;
    Ok(())
}

/// Writes a changed group that was read by [`get_for_update`].
pub async fn update(tx: &Transaction<'_>, project: ProjectId, changed: &SubscriptionGroup) -> Result<(), StoreError> {
    let sql = "UPDATE subscription_group SET name = $3, description = $4, default_subscribed = $5, public = $6, \
               updated_at = $7 WHERE project_id = $1 AND id = $2";
    let g = changed;
    tx.execute(sql, &[&project, &g.id, &g.name, &g.description, &g.default_subscribed, &g.public, &g.updated_at])
        .await?;
    Ok(())
}

/// Marks a group as deleted. Its subscriptions are removed later, in batches.
pub async fn delete(tx: &Transaction<'_>, project: ProjectId, id: Uuid, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE subscription_group SET deleted_at = $3 WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&project, &id, &now]).await?;
    Ok(())
}

/// Returns a group that is marked as deleted, if there is one.
pub async fn deleted(db: &impl GenericClient) -> Result<Option<(ProjectId, Uuid)>, StoreError> {
    let sql = "SELECT project_id, id FROM subscription_group WHERE deleted_at IS NOT NULL LIMIT 1";
    db.query_opt(sql, &[]).await?.map(|row| Ok((row.try_get("project_id")?, row.try_get("id")?))).transpose()
}

/// Deletes the row of a group that is marked as deleted.
pub async fn forget(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<(), StoreError> {
    let sql = "DELETE FROM subscription_group WHERE project_id = $1 AND id = $2 AND deleted_at IS NOT NULL";
    db.execute(sql, &[&project, &id]).await?;
    Ok(())
}
