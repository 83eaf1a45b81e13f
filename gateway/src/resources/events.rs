//! Recorded events.

pub mod export;

use std::collections::HashMap;

use database::{Connection, StoreError};
use jiff::Timestamp;
use rules::change::ChangeKind;
use serde::Serialize;
use serde_json::{Value, json};
use store_profiles::events::list::{self as events, EventFilter};
use store_profiles::events::read::{self, Event};
use store_profiles::events::remove;
use store_profiles::segments::dirty;
use store_profiles::users::read::{self as users, UserSummary};
use store_profiles::users::user_ref::UserRef;
use store_sending::erasures;
use uuid::Uuid;

use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::query::Query;
use crate::http::respond::{Reply, deleted, ok};
use crate::resources::paging::{NumberedPage, PageView};
use crate::resources::{audit_log, id_type, path_params, search, time_format};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventView {
    id: Uuid,
    event_name: String,
    user_id: Option<String>,
    anonymous_id: Option<String>,
    properties: Value,
    #[serde(serialize_with = "time_format::time")]
    timestamp: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    received_at: Timestamp,
}

impl EventView {
    fn new(event: Event, users: &HashMap<Uuid, UserSummary>) -> Self {
        let user = users.get(&event.user_id).cloned().unwrap_or_default();
        Self {
            id: event.public_id(),
            event_name: event.name,
            user_id: user.external_id,
            anonymous_id: event.anonymous_id.or(user.anonymous_id),
            properties: event.properties,
            timestamp: event.timestamp,
            received_at: event.received_at,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListView {
    events: Vec<EventView>,
    pagination: Pagination,
    next_cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Pagination {
    #[serde(flatten)]
    page: PageView,
    total_pages: i64,
}

/// `GET /events`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let page = NumberedPage::of(&query)?;
    let search = search::text(&query)?;
    let mut db = cx.database().await?;
    let filter = filter(cx, &db, &query, search).await?;
    let (mut events, total) = events::list(&mut db, cx.project, &filter, &page.start, page.rows()).await?;
    let end = page.cut(&mut events, |event| event.id);
    let next_cursor = end.next_cursor.clone();
    let ids: Vec<Uuid> = events.iter().map(|event| event.user_id).collect();
    let erased = erasures::under_way(&db, cx.project, &ids).await?;
    events.retain(|event| !is_erased(event, &erased));
    let users = users::summaries(&db, cx.project, &ids).await?;
    ok(&ListView {
        events: events.into_iter().map(|event| EventView::new(event, &users)).collect(),
        pagination: Pagination { total_pages: (total.count + end.limit - 1) / end.limit, page: end.view(total) },
        next_cursor,
    })
}

/// Builds the filter. A search becomes the few event names that it matches, and a user becomes all their IDs.
async fn filter(
    cx: &Context<'_>,
    db: &Connection,
    query: &Query,
    search: Option<String>,
) -> Result<EventFilter, ApiError> {
    let exact = query.get("event");
    let id_type = id_type::of(query)?;
    let names = match search {
        None => exact.map(|name| vec![name.to_owned()]),
        Some(search) => {
            let mut found = read::search_names(db, cx.project, &search).await?;
            found.retain(|name| exact.is_none_or(|exact| exact == name));
            Some(found)
        }
    };
    let user_ids = match query.get("user") {
        None => None,
        Some(user) => match users::find_readable_id(db, cx.project, UserRef::new(user, id_type)).await? {
            Some(user) => Some(users::all_ids(db, cx.project, user).await?),
            None => Some(Vec::new()),
        },
    };
    Ok(EventFilter { names, user_ids })
}

/// `GET /events/:id`
pub async fn get(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::text(segment, "event")?;
    let db = cx.database().await?;
    let event = read::find(&db, cx.project, &id).await?.ok_or_else(|| ApiError::no_such("event"))?;
    let erased = erasures::under_way(&db, cx.project, &[event.user_id]).await?;
    if is_erased(&event, &erased) {
        return Err(ApiError::no_such("event"));
    }
    let users = users::summaries(&db, cx.project, &[event.user_id]).await?;
    ok(&EventView::new(event, &users))
}

/// Whether the event's user has since been erased. Such events are hidden while their rows are still being deleted.
fn is_erased(event: &Event, erased: &HashMap<Uuid, Timestamp>) -> bool {
    erased.get(&event.user_id).is_some_and(|at| event.received_at <= *at)
}

/// `DELETE /events/:id`
pub async fn delete(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::text(segment, "event")?;
    let mut db = cx.database().await?;
    let event = read::find(&db, cx.project, &id).await?.ok_or_else(|| ApiError::no_such("event"))?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    if !remove::remove(&tx, cx.project, event.id).await? {
        return Err(ApiError::no_such("event"));
    }
    let look = ChangeKind::Event(event.name.clone());
    dirty::mark(&tx, cx.project, &look, &[event.user_id], cx.app.clock.now()).await?;
    // Omit the name: clients choose it, and the audit log outlives the user's erasure.
    audit_log::record(cx, &tx, "event.deleted", (event.id, ""), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    deleted()
}
