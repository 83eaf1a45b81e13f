//! News items, which a project shows to its users in the app's feed.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use kernel::ids::ProjectId;

/// A news item. It is published if `published_at` is set.
#[derive(Clone, Debug, PartialEq)]
pub struct NewsItem {
    pub id: Uuid,
    pub title: String,
    pub body: String,
    pub published_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

fn from_row(row: &Row) -> Result<NewsItem, StoreError> {
    Ok(NewsItem {
        id: row.try_get("id")?,
        title: row.try_get("title")?,
        body: row.try_get("body")?,
        published_at: row.try_get("published_at")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}

pub async fn get(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<NewsItem>, StoreError> {
    let sql = "SELECT id, title, body, published_at, created_at, updated_at FROM news WHERE project_id = $1 \
               AND id = $2";
    db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// Like [`get`], but locks the row until the transaction ends, for a read-modify-write.
pub async fn get_for_update(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
) -> Result<Option<NewsItem>, StoreError> {
    let sql = "SELECT id, title, body, published_at, created_at, updated_at FROM news WHERE project_id = $1 \
               AND id = $2 FOR UPDATE";
    tx.query_opt(sql, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// Lists all items, newest first, before an ID.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<NewsItem>, StoreError> {
    let sql = "SELECT id, title, body, published_at, created_at, updated_at FROM news WHERE project_id = $1 \
               AND id < $2 ORDER BY id DESC LIMIT $3";
    let before = before.unwrap_or(Uuid::max());
    db.query(&db.prepare_cached(sql).await?, &[&project, &before, &limit]).await?.iter().map(from_row).collect()
}

/// Lists the published items, last published first, after a (`published_at`, `id`).
pub async fn feed(
    db: &impl GenericClient,
    project: ProjectId,
    after: Option<(Timestamp, Uuid)>,
    limit: i64,
) -> Result<Vec<NewsItem>, StoreError> {
    let sql = "SELECT id, title, body, published_at, created_at, updated_at FROM news WHERE project_id = $1 \
               AND published_at IS NOT NULL AND (published_at, id) < ($2, $3) ORDER BY published_at DESC, id DESC \
               LIMIT $4";
    let (at, id) = after.unwrap_or((Timestamp::MAX, Uuid::max()));
    db.query(&db.prepare_cached(sql).await?, &[&project, &at, &id, &limit]).await?.iter().map(from_row).collect()
}

pub async fn insert(tx: &Transaction<'_>, project: ProjectId, item: &NewsItem) -> Result<(), StoreError> {
    let sql = "INSERT INTO news (project_id, id, title, body, published_at, created_at, updated_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let NewsItem { id, title, body, published_at, created_at, updated_at } = item;
    tx.execute(sql, &[&project, id, title, body, published_at, created_at, updated_at]).await?;
    Ok(())
}

/// Writes back an item read by [`get_for_update`].
pub async fn update(tx: &Transaction<'_>, project: ProjectId, item: &NewsItem) -> Result<(), StoreError> {
    let sql = "UPDATE news SET title = $3, body = $4, published_at = $5, updated_at = $6 \
               WHERE project_id = $1 AND id = $2";
    let NewsItem { id, title, body, published_at, updated_at, .. } = item;
    tx.execute(sql, &[&project, id, title, body, published_at, updated_at]).await?;
    Ok(())
}

pub async fn delete(tx: &Transaction<'_>, project: ProjectId, id: Uuid) -> Result<(), StoreError> {
    tx.execute("DELETE FROM news WHERE project_id = $1 AND id = $2", &[&project, &id]).await?;
    Ok(())
}
