//! Taking in what users do: read, check item by item, publish, answer.
//!
//! A request is answered with 202 once the stream has acknowledged every message that holds a part of it, and never
//! before.

pub mod applied;
mod check;
pub mod ids;
mod item;
pub mod prefer;
pub mod properties;
pub mod publish;
pub(crate) mod time;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use shared::clock::{from_ms, rfc3339};
use shared::event::{Body, IngestItem};
use shared::ids::UserKey;
use shared::metric_name::EVENTS_ACCEPTED;
use uuid::Uuid;

use crate::body::{self, MAX_BYTES, Media};
use crate::context::Context;
use crate::error::{ApiError, Problem};
use crate::respond::{self, Reply};
use check::{Checker, Kind};
use item::{Batch, Item};

/// Items of one batch at most.
pub const MAX_ITEMS: usize = 100;

#[derive(Serialize)]
struct Tracked<'a> {
    id: Uuid,
    status: &'static str,
    event: TrackedEvent<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TrackedEvent<'a> {
    id: Uuid,
    event_name: &'a str,
    user_id: Option<&'a str>,
    anonymous_id: Option<&'a str>,
    properties: &'a RawValue,
    timestamp: String,
}

/// `POST /events`.
pub async fn track(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_bytes(Media::JsonOrText, MAX_BYTES).await?;
    let text = utf8(&body)?;
    let item = Item::single(text)?;
    let checker = Checker::new(cx, &body, item.sent_at)?;
    let checked = checker.check(&item, Kind::Track, None).map_err(ApiError::Invalid)?;
    let wait = prefer::Wait::asked(cx)?;

    let positions = publish::all(&cx.app.ingest, cx.project, std::slice::from_ref(&checked.item)).await?;
    metrics::counter!(EVENTS_ACCEPTED).increment(1);
    let applied = wait.until(cx.app, &positions).await;

    let Some(Body::Track(event)) = &checked.item.body else {
        return Err(ApiError::Internal("a tracked event without a body".to_owned()));
    };
    let properties = std::str::from_utf8(&event.properties).ok().and_then(|p| serde_json::from_str(p).ok());
    let answer = Tracked {
        id: checked.public_id,
        status: "accepted",
        event: TrackedEvent {
            id: checked.public_id,
            event_name: &event.name,
            user_id: checked.item.user_id.as_deref(),
            anonymous_id: checked.item.anonymous_id.as_deref(),
            properties: properties.unwrap_or(RawValue::NULL),
            timestamp: rfc3339(from_ms(checked.item.timestamp_ms)),
        },
    };
    Ok(applied.tell(respond::accepted(&answer)?))
}

#[derive(Serialize)]
struct Identified<'a> {
    success: bool,
    user: IdentifiedUser<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IdentifiedUser<'a> {
    id: Uuid,
    external_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anonymous_id: Option<&'a str>,
}

/// `POST /users/identify`.
pub async fn identify(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_bytes(Media::JsonOrText, MAX_BYTES).await?;
    let text = utf8(&body)?;
    let item = Item::single(text)?;
    let checker = Checker::new(cx, &body, item.sent_at)?;
    let checked = checker.check(&item, Kind::Identify, None).map_err(ApiError::Invalid)?;
    let wait = prefer::Wait::asked(cx)?;

    let positions = publish::all(&cx.app.ingest, cx.project, std::slice::from_ref(&checked.item)).await?;
    metrics::counter!(EVENTS_ACCEPTED).increment(1);
    let applied = wait.until(cx.app, &positions).await;

    let IngestItem { user_id, anonymous_id, .. } = &checked.item;
    let key = UserKey::of(user_id.as_deref(), anonymous_id.as_deref())
        .ok_or_else(|| ApiError::Internal("an identified user without an id".to_owned()))?;
    let answer = Identified {
        success: true,
        user: IdentifiedUser {
            id: key.internal_id(cx.project),
            external_id: user_id.as_deref(),
            anonymous_id: anonymous_id.as_deref(),
        },
    };
    Ok(applied.tell(respond::accepted(&answer)?))
}

#[derive(Serialize)]
struct BatchAnswer {
    success: bool,
    processed: usize,
    errors: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<ItemError>,
}

#[derive(Serialize)]
struct ItemError {
    index: usize,
    message: String,
}

/// `POST /events/batch`. Each item is judged alone; also where all are bad, the request itself was well-formed and is
/// answered with 202.
pub async fn batch(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_bytes(Media::JsonOrText, MAX_BYTES).await?;
    let batch = Batch::parse(utf8(&body)?)?;
    let checker = Checker::new(cx, &body, batch.sent_at)?;
    let wait = prefer::Wait::asked(cx)?;

    let mut items = Vec::with_capacity(batch.items.len());
    let mut details = Vec::new();
    for (index, item) in batch.items.iter().enumerate() {
        let checked = match item {
            Ok(item) => checker.check_of_batch(item, index),
            Err(message) => Err(message.clone()),
        };
        match checked {
            Ok(checked) => items.push(checked.item),
            Err(message) => details.push(ItemError { index, message }),
        }
    }
    let positions = publish::all(&cx.app.ingest, cx.project, &items).await?;
    metrics::counter!(EVENTS_ACCEPTED).increment(items.len() as u64);
    let applied = wait.until(cx.app, &positions).await;

    let answer = BatchAnswer { success: details.is_empty(), processed: items.len(), errors: details.len(), details };
    Ok(applied.tell(respond::accepted(&answer)?))
}

fn utf8(body: &Bytes) -> Result<&str, ApiError> {
    std::str::from_utf8(body).map_err(|_| ApiError::BadRequest("the body is not UTF-8".to_owned()))
}

/// An error of the body as a whole.
fn unreadable(error: &serde_json::Error) -> ApiError {
    body::refused(error)
}

/// Several problems in one line, for an item of a batch.
fn in_one_line(problems: &[Problem]) -> String {
    problems.iter().map(|p| format!("{}: {}", p.field, p.message)).collect::<Vec<_>>().join("; ")
}
