//! Push tokens of devices, and the VAPID key for browser subscriptions. Writes go through the event stream: a 202
//! response means that the stream has stored them.

pub mod devices;
mod input;

use domain::message::Channel;
use domain::push_token;
use secrets::vapid::VapidKeys;
use serde_json::json;
use store_projects::{channels, vapid_keys};
use wire::event::{Body, IngestItem, RegisterToken, RemoveToken, id_bytes, trace_bytes};

use crate::auth::identity::IdentityProof;
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::{Reply, accepted, ok};
use crate::ingest::applied::Position;
use crate::ingest::prefer::Wait;
use crate::ingest::{ids, publish};
use crate::resources::idempotency;

/// A browser's subscription is below 2 KB.
const MAX_BYTES: usize = 16 * 1024;

/// `POST /push-tokens`
pub async fn register(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let input = input::registration(&cx.read_json(MAX_BYTES).await?)?;
    let proof = cx.identity_verifier().await?;
    let evidence = IdentityProof { user_hash: input.user_hash.as_deref(), user_token: input.user_token.as_deref() };
    proof.check(input.user_id.as_deref(), evidence)?;
    let unproven = proof.is_required() && input.user_id.is_none();
    let body = RegisterToken { platform: input.platform.as_str().to_owned(), token: input.token };
    // The user ID takes precedence: registering a token does not merge users.
    let anonymous_id = input.anonymous_id.filter(|_| input.user_id.is_none());
    let item = IngestItem { user_id: input.user_id, anonymous_id, unproven, ..item(cx, Body::RegisterToken(body))? };
    let wait = Wait::from_headers(cx)?;
    // Publish in order with the user's events, so that pushes triggered by later events find the device.
    let positions = publish::for_user(&cx.app.ingest.group_commit, cx.project, &item).await?;
    accepted_reply(cx, wait, &positions).await
}

/// `DELETE /push-tokens`
pub async fn remove(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let token = input::removal(&cx.read_json(MAX_BYTES).await?)?;
    let item = item(cx, Body::RemoveToken(RemoveToken { token: token.clone() }))?;
    let wait = Wait::from_headers(cx)?;
    // The request names no user, so it is keyed by token. Acceptance times decide which of several changes to a token
    // is the latest.
    let positions = publish::keyed(&cx.app.ingest.group_commit, push_token::id(cx.project, &token), &item).await?;
    accepted_reply(cx, wait, &positions).await
}

fn item(cx: &Context<'_>, body: Body) -> Result<IngestItem, ApiError> {
    let key = idempotency::key(cx)?.map(|key| format!("push-token:{key}"));
    let ids = ids::of_update(cx.project, cx.caller.id_space(), key.as_deref(), cx.received_ms);
    Ok(IngestItem {
        project_id: id_bytes(cx.project.0),
        id: id_bytes(ids.row),
        dedupe_id: ids.dedupe.map(id_bytes).unwrap_or_default(),
        received_ms: cx.received_ms,
        timestamp_ms: cx.received_ms,
        body: Some(body),
        trace: trace_bytes(cx.trace),
        ..IngestItem::default()
    })
}

async fn accepted_reply(cx: &Context<'_>, wait: Wait, positions: &[Position]) -> Result<Reply, ApiError> {
    let applied = wait.until(cx.app, positions).await;
    Ok(applied.add_header(accepted(&json!({ "success": true }))?))
}

/// `GET /push-tokens`
pub async fn settings(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let db = cx.database().await?;
    let master_keys = &cx.app.master_keys;
    let push = channels::get(&db, master_keys, cx.project, Channel::Push).await?.unwrap_or_default();
    let mut keys = vapid_keys::get(&db, master_keys, cx.project).await?;
    if keys.is_none() {
        let new = VapidKeys::generate().map_err(|e| ApiError::Internal(e.to_string()))?;
        vapid_keys::insert(&db, master_keys, cx.project, &new, cx.app.clock.now()).await?;
        keys = vapid_keys::get(&db, master_keys, cx.project).await?;
    }
    let keys = keys.ok_or_else(|| ApiError::Internal("the created VAPID key was not found".to_owned()))?;
    let data = json!({
        "vapid_public_key": keys.public_text(),
        "push_configured": super::channels::push_is_configured(&push, cx.app.config.shared_push_app),
    });
    ok(&json!({ "success": true, "data": data }))
}
