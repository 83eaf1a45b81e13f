//! News: what a project shows its people in the app's feed.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use database::filter::Filter;
use kernel::ids::ProjectId;

/// A news item. It is published while `published_at` holds when that was.
#[derive(Clone, Debug, PartialEq)]
pub struct NewsItem {
    pub id: Uuid,
    pub title: String,
    pub body: String,
    pub published_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

const COLUMNS: &str = "id, title, body, published_at, created_at, updated_at";

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
    let sql = format!("SELECT {COLUMNS} FROM news WHERE project_id = $1 AND id = $2");
    db.query_opt(&db.prepare_cached(&sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// As [`get`], and locked until the transaction's end, for reading, changing and writing back.
pub async fn get_for_update(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
) -> Result<Option<NewsItem>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM news WHERE project_id = $1 AND id = $2 FOR UPDATE");
    tx.query_opt(&sql, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// All items, newest first, those before an id.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<NewsItem>, StoreError> {
    let mut filter = Filter::of(&project);
    if before.is_some() {
        filter.and("id < ?1", &[&before]);
    }
    filter.page(db, (COLUMNS, "news", "id DESC"), &0, &limit).await?.iter().map(from_row).collect()
}

/// The published items, last published first, those behind a (published_at, id).
pub async fn feed(
    db: &impl GenericClient,
    project: ProjectId,
    after: Option<(Timestamp, Uuid)>,
    limit: i64,
) -> Result<Vec<NewsItem>, StoreError> {
    let mut filter = Filter::of(&project);
    filter.and("published_at IS NOT NULL", &[]);
    if let Some((at, id)) = &after {
        filter.and("(published_at, id) < (?1, ?2)", &[at, id]);
    }
    let order = (COLUMNS, "news", "published_at DESC, id DESC");
    filter.page(db, order, &0, &limit).await?.iter().map(from_row).collect()
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
