//! A project's secrets: visible to its ADMINs and rotated one at a time.

use std::time::Duration;

use database::StoreError;
use database::changes::Topic;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, json};
use store_projects::projects::{self, ProjectSecrets};

use super::input;
use crate::context::Context;
use crate::http::body::{self, Media};
use crate::http::error::ApiError;
use crate::http::respond::{Reply, ok};
use crate::resources::sessions::MAX_BODY_BYTES;
use crate::resources::{audit_log, change_hint, time_format};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SecretsView {
    webhook_secret: String,
    #[serde(serialize_with = "time_format::maybe_time")]
    previous_webhook_secret_until: Option<Timestamp>,
    signing_secret: Option<String>,
    #[serde(serialize_with = "time_format::maybe_time")]
    previous_signing_secret_until: Option<Timestamp>,
    identity_secret: String,
}

impl SecretsView {
    pub fn new(secrets: ProjectSecrets, now: Timestamp) -> Self {
        Self {
            webhook_secret: secrets.webhook,
            previous_webhook_secret_until: secrets.previous_webhook.map(|p| p.until).filter(|until| now < *until),
            signing_secret: secrets.signing.as_ref().map(|signing| signing.current().to_owned()),
            previous_signing_secret_until: secrets.signing.and_then(|signing| signing.replaced_until(now)),
            identity_secret: secrets.identity,
        }
    }
}

/// `POST /projects/:id/signing-secret`: rotates the secret that signs the calls of `WEBHOOK` steps. Calls are also
/// signed with the previous secret for one day.
pub async fn rotate_signing(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let (keys, now) = (&cx.app.master_keys, cx.app.clock.now());
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let project = projects::get_for_update(&tx, cx.project).await?.ok_or_else(|| ApiError::no_such("project"))?;
    let secrets = projects::secrets(&tx, keys, cx.project).await?.ok_or_else(|| ApiError::no_such("project"))?;
    let secrets = secrets.with_rotated_signing(now);
    projects::set_secrets(&tx, keys, cx.project, &secrets, now).await?;
    audit_log::record(cx, &tx, "project.signing_secret_rotated", (cx.project.0, &project.name), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    let shown = SecretsView::new(secrets, now);
    let until = shown.previous_signing_secret_until.map(kernel::clock::rfc3339);
    ok(&json!({ "signingSecret": shown.signing_secret, "previousSigningSecretUntil": until }))
}

/// `POST /projects/:id/webhook-secret`: rotates the webhook secret. The previous one stays valid for one day.
pub async fn rotate_webhook(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let (keys, now) = (&cx.app.master_keys, cx.app.clock.now());
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let project = projects::get_for_update(&tx, cx.project).await?.ok_or_else(|| ApiError::no_such("project"))?;
    let secrets = projects::secrets(&tx, keys, cx.project).await?.ok_or_else(|| ApiError::no_such("project"))?;
    let secrets = secrets.with_rotated_webhook(now);
    projects::set_secrets(&tx, keys, cx.project, &secrets, now).await?;
    audit_log::record(cx, &tx, "project.webhook_secret_rotated", (cx.project.0, &project.name), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    let shown = SecretsView::new(secrets, now);
    let until = shown.previous_webhook_secret_until.map(kernel::clock::rfc3339);
    ok(&json!({ "webhookSecret": shown.webhook_secret, "previousWebhookSecretUntil": until }))
}

/// `POST /projects/:id/identity-secret`: rotates the identity secret. The previous one stays valid for the requested
/// overlap.
pub async fn rotate_identity(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let bytes = cx.read_bytes(Media::Json, MAX_BODY_BYTES).await?;
    let body = if bytes.is_empty() { Map::new() } else { body::json_object(&bytes)? };
    let hours = input::overlap(&body)?;
    let (keys, now) = (&cx.app.master_keys, cx.app.clock.now());
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let project = projects::get_for_update(&tx, cx.project).await?.ok_or_else(|| ApiError::no_such("project"))?;
    let secrets = projects::secrets(&tx, keys, cx.project).await?.ok_or_else(|| ApiError::no_such("project"))?;
    let secrets = secrets.with_rotated_identity(now, Duration::from_hours(hours));
    projects::set_secrets(&tx, keys, cx.project, &secrets, now).await?;
    let details = json!({ "overlapHours": hours });
    audit_log::record(cx, &tx, "project.identity_secret_rotated", (cx.project.0, &project.name), details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    cx.app.auth.identity_secrets.remove([cx.project]);
    change_hint::announce(&cx.app.bus, Topic::Project).await;
    let until = secrets.previous_identity.map(|previous| kernel::clock::rfc3339(previous.until));
    ok(&json!({ "identitySecret": secrets.identity, "previousIdentitySecretUntil": until }))
}
