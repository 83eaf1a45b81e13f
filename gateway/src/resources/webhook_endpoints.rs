//! Webhook endpoints of other systems, which receive message and automation events. Secrets are returned once.

pub mod deliveries;
mod input;

use database::StoreError;
use domain::webhook::EndpointSecrets;
use jiff::Timestamp;
use kernel::ids;
use serde::Serialize;
use serde_json::json;
use store_projects::projects;
use store_projects::webhook_endpoints::{self, Endpoint};
use uuid::Uuid;

use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::respond::{Reply, created, deleted, ok};
use crate::resources::{audit_log, idempotency, path_params, time_format};

/// Maximum number of endpoints per project.
const MAX_ENDPOINTS: usize = 20;
const RESOURCE: &str = "webhook endpoint";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointView {
    id: Uuid,
    url: String,
    description: String,
    events: Vec<String>,
    enabled: bool,
    /// Why Rekindle disabled it: `gone` or `failing`.
    disabled_reason: Option<String>,
    #[serde(serialize_with = "time_format::maybe_time")]
    disabled_at: Option<Timestamp>,
    #[serde(serialize_with = "time_format::maybe_time")]
    failing_since: Option<Timestamp>,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    updated_at: Timestamp,
}

impl From<Endpoint> for EndpointView {
    fn from(of: Endpoint) -> Self {
        Self {
            id: of.id,
            url: of.url,
            description: of.description,
            events: of.types,
            enabled: of.enabled,
            disabled_reason: of.disabled_reason,
            disabled_at: of.disabled_at,
            failing_since: of.failing_since,
            created_at: of.created_at,
            updated_at: of.updated_at,
        }
    }
}

#[derive(Serialize)]
struct SecretView {
    #[serde(flatten)]
    endpoint: EndpointView,
    /// Null in the response to a repeated request.
    secret: Option<String>,
}

pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let found = webhook_endpoints::list(&cx.database().await?, cx.project).await?;
    ok(&json!({ "endpoints": found.into_iter().map(EndpointView::from).collect::<Vec<_>>() }))
}

pub async fn create(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(body::MAX_BYTES).await?;
    let now = cx.app.clock.now();
    let endpoint = input::new_endpoint(&body, ids::fresh(now.as_millisecond()), now)?;
    input::vet(&endpoint.url, &cx.app.config.outbound).await?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    // Serialize creations per project, so that the limit holds.
    projects::get_for_update(&tx, cx.project).await?.ok_or_else(|| ApiError::no_such("project"))?;
    if let Some(existing) = idempotency::existing_id(cx, &tx, "webhook_endpoint", endpoint.id).await? {
        let endpoint =
            webhook_endpoints::get(&tx, cx.project, existing).await?.ok_or_else(idempotency::deleted_resource_error)?;
        return created(&SecretView { endpoint: endpoint.into(), secret: None });
    }
    if webhook_endpoints::list(&tx, cx.project).await?.len() >= MAX_ENDPOINTS {
        return Err(ApiError::Conflict(format!(
            "the project has reached its limit of {MAX_ENDPOINTS} webhook endpoints; delete one first"
        )));
    }
    let secrets = EndpointSecrets::random();
    webhook_endpoints::insert(&tx, &cx.app.master_keys, cx.project, &endpoint, &secrets).await?;
    let details = json!({ "url": without_query(&endpoint.url), "events": endpoint.types });
    audit_log::record(cx, &tx, "webhook_endpoint.created", (endpoint.id, ""), details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    created(&SecretView { endpoint: endpoint.into(), secret: Some(secrets.current().to_owned()) })
}

/// Returns a URL as recorded in the audit log: its query may contain a token of the receiver.
fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

pub async fn get(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, RESOURCE)?;
    let found = webhook_endpoints::get(&cx.database().await?, cx.project, id).await?;
    ok(&EndpointView::from(found.ok_or_else(|| ApiError::no_such(RESOURCE))?))
}

pub async fn update(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, RESOURCE)?;
    let body = cx.read_json(body::MAX_BYTES).await?;
    let now = cx.app.clock.now();
    let mut db = cx.database().await?;
    let current = webhook_endpoints::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such(RESOURCE))?;
    let url = input::changed_endpoint(&body, current.clone(), now)?.url;
    if url != current.url {
        input::vet(&url, &cx.app.config.outbound).await?;
    }
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let current = webhook_endpoints::get_for_update(&tx, cx.project, id).await?;
    let changed = input::changed_endpoint(&body, current.ok_or_else(|| ApiError::no_such(RESOURCE))?, now)?;
    webhook_endpoints::update(&tx, cx.project, &changed).await?;
    let details = json!({ "url": without_query(&changed.url), "events": changed.types, "enabled": changed.enabled });
    audit_log::record(cx, &tx, "webhook_endpoint.updated", (id, ""), details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    ok(&EndpointView::from(changed))
}

pub async fn delete(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, RESOURCE)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    if !webhook_endpoints::delete(&tx, cx.project, id, cx.app.clock.now()).await? {
        return Err(ApiError::no_such(RESOURCE));
    }
    audit_log::record(cx, &tx, "webhook_endpoint.deleted", (id, ""), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    deleted()
}

pub async fn rotate(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, RESOURCE)?;
    let now = cx.app.clock.now();
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let missing = || ApiError::no_such(RESOURCE);
    let endpoint = webhook_endpoints::get_for_update(&tx, cx.project, id).await?.ok_or_else(missing)?;
    let secrets = webhook_endpoints::secrets(&tx, &cx.app.master_keys, cx.project, id).await?.ok_or_else(missing)?;
    let secrets = secrets.rotated(now);
    webhook_endpoints::set_secrets(&tx, &cx.app.master_keys, cx.project, id, &secrets, now).await?;
    audit_log::record(cx, &tx, "webhook_endpoint.secret_rotated", (id, ""), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    let endpoint = Endpoint { updated_at: now, ..endpoint };
    ok(&SecretView { endpoint: endpoint.into(), secret: Some(secrets.current().to_owned()) })
}
