//! Accepts events and user updates: read, check item by item, publish, respond.
//!
//! A request is answered with 202 only after the stream has acknowledged every message that holds a part of it.

pub mod applied;
pub(crate) mod batch;
pub(crate) mod check;
pub mod ids;
pub mod import;
pub(crate) mod item;
pub mod prefer;
pub mod properties;
pub mod publish;
mod state;
pub(crate) mod time;

use bytes::Bytes;
use kernel::clock::{from_ms, rfc3339};
use kernel::ids::UserKey;
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::auth::identity::{IdentityError, IdentityProof, IdentityVerifier};
use crate::context::Context;
use crate::http::body::{self, MAX_BYTES, Media};
use crate::http::error::{ApiError, Problem};
use crate::http::respond::{self, Reply};
use batch::Batch;
use check::{Checked, Checker, Content, Kind, text_of};
use item::Item;
use publish::Outgoing;
pub use state::Ingest;

/// Maximum items of a batch.
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

/// Handles `POST /events`.
pub async fn track(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_bytes(Media::JsonOrText, MAX_BYTES).await?;
    let item = Item::single(utf8(&body)?)?;
    let checked = Checker::new(cx, item.sent_at)?.check(&item, Kind::Track, None).map_err(ApiError::Invalid)?;
    let checked = check_identity(&cx.identity_verifier().await?, &item, checked)?;
    let waited = accept(cx, &checked).await?;

    let Content::Track { name, .. } = &checked.content else {
        return Err(ApiError::Internal("a tracked event without a body".to_owned()));
    };
    let properties = item.properties.or_else(|| serde_json::from_str("{}").ok());
    let response = Tracked {
        id: checked.public_id,
        status: "accepted",
        event: TrackedEvent {
            id: checked.public_id,
            event_name: name,
            user_id: checked.user_id.as_deref(),
            anonymous_id: checked.anonymous_id.as_deref(),
            properties: properties.unwrap_or(RawValue::NULL),
            timestamp: rfc3339(from_ms(checked.timestamp_ms)),
        },
    };
    Ok(waited.add_header(respond::accepted(&response)?))
}

/// Publishes a single item and, if the client asks for it, waits until it is applied.
async fn accept(cx: &Context<'_>, checked: &Checked<'_>) -> Result<prefer::AppliedWait, ApiError> {
    let wait = prefer::Wait::from_headers(cx)?;
    let mut outgoing = Outgoing::new(&cx.app.ingest.group_commit, cx.project, 1);
    outgoing.push(&checked.item())?;
    let positions = outgoing.publish(&cx.app.ingest.group_commit, cx.trace).await?;
    cx.app.meters.accepted.increment(1);
    Ok(wait.until(cx.app, &positions).await)
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

/// Handles `POST /users/identify`.
pub async fn identify(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_bytes(Media::JsonOrText, MAX_BYTES).await?;
    let item = Item::single(utf8(&body)?)?;
    let checked = Checker::new(cx, item.sent_at)?.check(&item, Kind::Identify, None).map_err(ApiError::Invalid)?;
    let checked = check_identity(&cx.identity_verifier().await?, &item, checked)?;
    let waited = accept(cx, &checked).await?;

    let (user_id, anonymous_id) = (checked.user_id.as_deref(), checked.anonymous_id.as_deref());
    let key = UserKey::of(user_id, anonymous_id)
        .ok_or_else(|| ApiError::Internal("an identified user without an id".to_owned()))?;
    let user = IdentifiedUser { id: key.internal_id(cx.project), external_id: user_id, anonymous_id };
    Ok(waited.add_header(respond::accepted(&Identified { success: true, user })?))
}

#[derive(Serialize)]
struct BatchResponse {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
}

/// The code of an item that was refused only because it lacks a proof. Resent with a proof, it is accepted.
const UNPROVEN: &str = "identity_unproven";

/// Handles `POST /events/batch`. Each item is judged on its own: the response is 202 even if all are invalid, because the
/// request itself was well-formed.
pub async fn batch(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_bytes(Media::JsonOrText, MAX_BYTES).await?;
    let batch = Batch::parse(utf8(&body)?)?;
    let checker = Checker::new(cx, batch.sent_at)?;
    let proof = cx.identity_verifier().await?;
    let wait = prefer::Wait::from_headers(cx)?;

    let mut outgoing = Outgoing::new(&cx.app.ingest.group_commit, cx.project, batch.items.len());
    let mut details = Vec::new();
    for (index, item) in batch.items.iter().enumerate() {
        let checked = match batch.unreadable.get(&index) {
            None => checker.check_batch_item(item, index).map_err(|message| (message, None)).and_then(|checked| {
                check_identity(&proof, item, checked).map_err(|refusal| (refusal.message().to_owned(), Some(UNPROVEN)))
            }),
            Some(why) => Err((why.clone(), None)),
        };
        match checked {
            Ok(checked) => outgoing.push(&checked.item())?,
            Err((message, code)) => details.push(ItemError { index, message, code }),
        }
    }
    let processed = batch.items.len() - details.len();
    let positions = outgoing.publish(&cx.app.ingest.group_commit, cx.trace).await?;
    cx.app.meters.accepted.increment(processed as u64);
    let waited = wait.until(cx.app, &positions).await;

    let response = BatchResponse { success: details.is_empty(), processed, errors: details.len(), details };
    Ok(waited.add_header(respond::accepted(&response)?))
}

/// Refuses an item that names a user without a required proof. Marks an item that names only an anonymous ID as unproven,
/// because that ID may have been merged into a user.
fn check_identity<'a>(
    proof: &IdentityVerifier,
    item: &Item<'_>,
    mut checked: Checked<'a>,
) -> Result<Checked<'a>, IdentityError> {
    if proof.is_required() {
        let (user_hash, user_token) = (item.user_hash.and_then(text_of), item.user_token.and_then(text_of));
        let evidence = IdentityProof { user_hash: user_hash.as_deref(), user_token: user_token.as_deref() };
        proof.check(checked.user_id.as_deref(), evidence)?;
        checked.unproven = checked.user_id.is_none();
    }
    Ok(checked)
}

fn utf8(body: &Bytes) -> Result<&str, ApiError> {
    std::str::from_utf8(body).map_err(|_| ApiError::BadRequest("the body is not UTF-8".to_owned()))
}

/// Returns the error for an unreadable body.
fn json_error(error: &serde_json::Error) -> ApiError {
    body::parse_error(error)
}

/// Joins problems into one line, for an item of a batch.
fn join_problems(problems: &[Problem]) -> String {
    problems.iter().map(|p| format!("{}: {}", p.field, p.message)).collect::<Vec<_>>().join("; ")
}
