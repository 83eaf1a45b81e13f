//! Inbound webhooks: notifications from providers and from the project's own systems.

mod input;
pub(crate) mod signature;

use kernel::clock::from_ms;
use kernel::ids::ProjectId;
use kernel::metric_name::Metric;
use serde_json::json;
use sha2::{Digest, Sha256};
use store_projects::projects;
use uuid::Uuid;
use wire::event::{Body, IngestItem, Webhook, id_bytes, trace_bytes};

use crate::app::App;
use crate::http::body::{self, Media};
use crate::http::error::ApiError;
use crate::http::request::Request;
use crate::http::respond::{self, Reply, accepted};
use crate::ingest::prefer::Wait;
use crate::ingest::{ids, publish};
use crate::limits::rate_limit::Lane;
use input::Notification;
use signature::Signature;

/// `POST /webhook/:projectId`
pub async fn receive(app: &App, request: &Request<'_>, segment: &str) -> Result<Reply, ApiError> {
    let missing = || ApiError::NotFound("no such project".to_owned());
    let project = Uuid::try_parse(segment).map(ProjectId).map_err(|_| missing())?;
    let signature = Signature::of(request.headers, request.received_ms)?;
    let (secrets, rate_limit) = {
        // Limit the lookups: unauthenticated callers must not use up all database connections.
        let _permit = app.auth.lookup_permits.acquire().await?;
        let db = app.store.connection().await?;
        let row = projects::get(&db, project).await?.ok_or_else(missing)?;
        (projects::secrets(&db, &app.master_keys, project).await?.ok_or_else(missing)?, row.rate_limit)
    };
    let body = request.read_bytes(Media::Json, body::MAX_BYTES).await?;
    signature.verify(secrets.accepted_webhook(from_ms(request.received_ms)), &body)?;

    let rate_limit = app.config.effective_rate_limit(rate_limit);
    let allowance = app.limits.take(project, rate_limit, Lane::Priority).await;
    let result = match allowance.check() {
        Ok(()) => accept(app, request, project, &signature, &body).await,
        Err(over) => Err(over),
    };
    let mut reply = result.unwrap_or_else(|error| respond::error(&error, request.request_id));
    allowance.add_headers(&mut reply);
    Ok(reply)
}

async fn accept(
    app: &App,
    request: &Request<'_>,
    project: ProjectId,
    signature: &Signature<'_>,
    body: &[u8],
) -> Result<Reply, ApiError> {
    let Some(notification) = input::notification(body::json_object(body)?)? else {
        // An error response would make the sender retry again and again.
        metrics::counter!(Metric::WebhooksIgnored).increment(1);
        return accepted(&json!({ "received": true }));
    };
    let Notification { kind, data, message, user_id, anonymous_id } = notification;
    // The same body with the same timestamp is the same webhook, even if another sender repeats it.
    let digest = Sha256::new().chain_update(signature.timestamp.unwrap_or("")).chain_update(b".").chain_update(body);
    let (digest, has_timestamp) = (hex::encode(digest.finalize()), signature.timestamp.is_some());
    let ids = ids::of_webhook(project, &digest, has_timestamp, request.received_ms);
    let item = IngestItem {
        project_id: id_bytes(project.0),
        id: id_bytes(ids.row),
        dedupe_id: ids.dedupe.map(id_bytes).unwrap_or_default(),
        received_ms: request.received_ms,
        timestamp_ms: request.received_ms,
        user_id,
        anonymous_id,
        body: Some(Body::Webhook(Webhook { kind, data })),
        trace: trace_bytes(request.trace),
        ..IngestItem::default()
    };
    let wait = Wait::from_headers(request)?;
    let ingest = &app.ingest.group_commit;
    let positions = if item.user_key().is_ok() {
        publish::for_user(ingest, project, &item).await?
    } else {
        publish::keyed(ingest, message.unwrap_or(ids.row), &item).await?
    };
    let applied = wait.until(app, &positions).await;
    Ok(applied.add_header(accepted(&json!({ "received": true }))?))
}
