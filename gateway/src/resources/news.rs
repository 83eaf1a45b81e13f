//! News, and the feed that clients read.

mod input;

use database::StoreError;
use http::StatusCode;
use jiff::Timestamp;
use kernel::clock::rfc3339;
use kernel::ids;
use serde::Serialize;
use serde_json::json;
use store_sending::news::{self, NewsItem};
use uuid::Uuid;

use super::{audit_log, idempotency, paging};
use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::etag::{EntityTag, Precondition};
use crate::http::query::Page;
use crate::http::respond::{Reply, deleted, ok};
use crate::resources::{path_params, time_format};

/// Items in one answer at most.
const LIST_MAX: i64 = 1_000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewsView {
    id: Uuid,
    title: String,
    body: String,
    published: bool,
    #[serde(serialize_with = "time_format::maybe_time")]
    published_at: Option<Timestamp>,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    updated_at: Timestamp,
}

impl From<NewsItem> for NewsView {
    fn from(item: NewsItem) -> Self {
        Self {
            id: item.id,
            title: item.title,
            body: item.body,
            published: item.published_at.is_some(),
            published_at: item.published_at,
            created_at: item.created_at,
            updated_at: item.updated_at,
        }
    }
}

fn tag(of: &NewsItem) -> Result<EntityTag, ApiError> {
    let NewsItem { id: _, title, body, published_at, created_at: _, updated_at: _ } = of;
    EntityTag::of(&(title, body, published_at.map(rfc3339)))
}

/// With its tag.
fn shown(status: StatusCode, item: NewsItem) -> Result<Reply, ApiError> {
    let tag = tag(&item)?;
    Ok(Reply::json(status, &NewsView::from(item))?.tagged(&tag))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListView {
    items: Vec<NewsView>,
    next_cursor: Option<String>,
}

/// `GET /news`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let before = paging::cursor_id(&cx.query()?)?;
    let db = cx.database().await?;
    let mut found = news::list(&db, cx.project, before, LIST_MAX + 1).await?;
    let next_cursor = paging::cut(&mut found, LIST_MAX, |item| item.id.to_string());
    ok(&ListView { items: found.into_iter().map(NewsView::from).collect(), next_cursor })
}

/// What clients see of an item.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FeedItem {
    id: Uuid,
    title: String,
    body: String,
    #[serde(serialize_with = "time_format::maybe_time")]
    published_at: Option<Timestamp>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FeedView {
    items: Vec<FeedItem>,
    next_cursor: Option<String>,
}

/// `GET /feed`
pub async fn feed(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let limit = query.integer("limit", 1..=100)?.unwrap_or(Page::DEFAULT_LIMIT);
    let after = paging::cursor_time(&query)?;
    let db = cx.database().await?;
    let mut found = news::feed(&db, cx.project, after, limit + 1).await?;
    let next_cursor = paging::cut(&mut found, limit, |item| {
        paging::time_cursor(item.published_at.unwrap_or(item.created_at), item.id)
    });
    let item =
        |item: NewsItem| FeedItem { id: item.id, title: item.title, body: item.body, published_at: item.published_at };
    ok(&FeedView { items: found.into_iter().map(item).collect(), next_cursor })
}

/// `GET /news/:id`
pub async fn get(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "news item")?;
    let db = cx.database().await?;
    let item = news::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("news item"))?;
    shown(StatusCode::OK, item)
}

/// `POST /news`
pub async fn create(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(body::MAX_BYTES).await?;
    let now = cx.app.clock.now();
    let mut item = input::new_item(&body, ids::fresh(now.as_millisecond()), now)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    match idempotency::made_before(cx, &tx, "news", item.id).await? {
        Some(made) => item = news::get(&tx, cx.project, made).await?.ok_or_else(idempotency::gone)?,
        None => {
            news::insert(&tx, cx.project, &item).await?;
            audit_log::note(cx, &tx, "news.created", (item.id, &item.title), json!({})).await?;
        }
    }
    tx.commit().await.map_err(StoreError::from)?;
    shown(StatusCode::CREATED, item)
}

/// `PUT /news/:id`
pub async fn update(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "news item")?;
    let precondition = Precondition::of(cx.headers)?;
    let body = cx.read_json(body::MAX_BYTES).await?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let current = news::get_for_update(&tx, cx.project, id).await?.ok_or_else(|| ApiError::no_such("news item"))?;
    precondition.check("news item", || tag(&current))?;
    let item = input::changed_item(&body, current, cx.app.clock.now())?;
    news::update(&tx, cx.project, &item).await?;
    audit_log::note(cx, &tx, "news.updated", (id, &item.title), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    shown(StatusCode::OK, item)
}

/// `DELETE /news/:id`
pub async fn delete(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "news item")?;
    let precondition = Precondition::of(cx.headers)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let item = news::get_for_update(&tx, cx.project, id).await?.ok_or_else(|| ApiError::no_such("news item"))?;
    precondition.check("news item", || tag(&item))?;
    news::delete(&tx, cx.project, id).await?;
    audit_log::note(cx, &tx, "news.deleted", (id, &item.title), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    deleted()
}
