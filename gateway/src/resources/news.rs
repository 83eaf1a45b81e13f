//! News items, and the feed for clients.

mod input;

use database::StoreError;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};
use jiff::Timestamp;
use kernel::clock::rfc3339;
use kernel::ids;
use serde::Serialize;
use serde_json::json;
use store_sending::news::{self, NewsItem};
use uuid::Uuid;

use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::etag::{EntityTag, Precondition};
use crate::http::respond::{Reply, deleted};
use crate::resources::paging::CursorPage;
use crate::resources::{audit_log, idempotency, path_params, time_format};

/// Maximum number of items per page.
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

/// Returns the item with its entity tag.
fn tagged_reply(status: StatusCode, item: NewsItem) -> Result<Reply, ApiError> {
    let tag = tag(&item)?;
    Ok(Reply::json(status, &NewsView::from(item))?.with_etag(&tag))
}

/// `GET /news`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let page = CursorPage::of(&cx.query()?, LIST_MAX)?;
    let db = cx.database().await?;
    let mut found = news::list(&db, cx.project, page.after, page.rows()).await?;
    let end = page.cut(&mut found, |item| item.id);
    end.reply("items", found.into_iter().map(NewsView::from))
}

/// A news item as shown to clients.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FeedItem {
    id: Uuid,
    title: String,
    body: String,
    #[serde(serialize_with = "time_format::maybe_time")]
    published_at: Option<Timestamp>,
}

/// `GET /feed`
pub async fn feed(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let page = CursorPage::limited(&query)?;
    let db = cx.database().await?;
    let mut found = news::feed(&db, cx.project, page.after, page.rows()).await?;
    let end = page.cut(&mut found, |item| (item.published_at.unwrap_or(item.created_at), item.id));
    let item =
        |item: NewsItem| FeedItem { id: item.id, title: item.title, body: item.body, published_at: item.published_at };
    let mut reply = end.reply("items", found.into_iter().map(item))?;
    // Equal for all callers of the project, which shared caches do not know.
    reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("private"));
    Ok(reply)
}

/// `GET /news/:id`
pub async fn get(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "news item")?;
    let db = cx.database().await?;
    let item = news::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("news item"))?;
    tagged_reply(StatusCode::OK, item)
}

/// `POST /news`
pub async fn create(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(body::MAX_BYTES).await?;
    let now = cx.app.clock.now();
    let mut item = input::new_item(&body, ids::fresh(now.as_millisecond()), now)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    match idempotency::existing_id(cx, &tx, "news", item.id).await? {
        Some(existing) => {
            item = news::get(&tx, cx.project, existing).await?.ok_or_else(idempotency::deleted_resource_error)?;
        }
        None => {
            news::insert(&tx, cx.project, &item).await?;
            audit_log::record(cx, &tx, "news.created", (item.id, &item.title), json!({})).await?;
        }
    }
    tx.commit().await.map_err(StoreError::from)?;
    tagged_reply(StatusCode::CREATED, item)
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
    audit_log::record(cx, &tx, "news.updated", (id, &item.title), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    tagged_reply(StatusCode::OK, item)
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
    audit_log::record(cx, &tx, "news.deleted", (id, &item.title), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    deleted()
}
