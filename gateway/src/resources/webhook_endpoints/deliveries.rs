//! The delivery log of a webhook endpoint.

use database::StoreError;
use jiff::Timestamp;
use kernel::clock::rfc3339;
use kernel::ids;
use serde::Serialize;
use serde_json::{Value, json};
use store_projects::webhook_endpoints;
use store_sending::webhook_deliveries::{self, Delivery, DeliveryStatus, enqueue};
use uuid::Uuid;

use super::RESOURCE;
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::{Reply, created, ok};
use crate::resources::paging::CursorPage;
use crate::resources::{audit_log, path_params, time_format};

const DELIVERY: &str = "delivery";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeliveryView {
    id: Uuid,
    r#type: String,
    status: &'static str,
    attempts: Value,
    /// Set while the delivery is pending.
    #[serde(serialize_with = "time_format::maybe_time")]
    next_attempt_at: Option<Timestamp>,
    /// The request body sent to the endpoint.
    payload: Value,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
}

impl From<Delivery> for DeliveryView {
    fn from(of: Delivery) -> Self {
        Self {
            payload: json!({ "type": of.kind, "timestamp": rfc3339(of.happened_at), "data": of.data }),
            id: of.id,
            r#type: of.kind,
            status: of.status.as_str(),
            attempts: of.attempts,
            next_attempt_at: of.due_at,
            created_at: of.created_at,
        }
    }
}

/// `GET /webhook-endpoints/:id/deliveries`
pub async fn list(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, RESOURCE)?;
    let query = cx.query()?;
    let page = CursorPage::limited(&query)?;
    let status = query.choice("status", &DeliveryStatus::ALL.map(|status| (status.as_str(), status)))?;
    let db = cx.database().await?;
    webhook_endpoints::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such(RESOURCE))?;
    let mut found = webhook_deliveries::list(&db, cx.project, id, status, page.after, page.rows()).await?;
    let end = page.cut(&mut found, |delivery| delivery.id);
    end.reply("deliveries", found.into_iter().map(DeliveryView::from))
}

/// `GET /webhook-endpoints/:id/deliveries/:delivery`
pub async fn get(cx: &Context<'_>, segment: &str, delivery: &str) -> Result<Reply, ApiError> {
    let (id, delivery) = (path_params::id(segment, RESOURCE)?, path_params::id(delivery, DELIVERY)?);
    let db = cx.database().await?;
    webhook_endpoints::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such(RESOURCE))?;
    let found = webhook_deliveries::get(&db, cx.project, id, delivery).await?;
    ok(&DeliveryView::from(found.ok_or_else(|| ApiError::no_such(DELIVERY))?))
}

/// `POST /webhook-endpoints/:id/deliveries/:delivery/resend`
pub async fn resend(cx: &Context<'_>, segment: &str, delivery: &str) -> Result<Reply, ApiError> {
    let (id, delivery) = (path_params::id(segment, RESOURCE)?, path_params::id(delivery, DELIVERY)?);
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let endpoint = webhook_endpoints::get_for_update(&tx, cx.project, id).await?;
    let enabled = endpoint.ok_or_else(|| ApiError::no_such(RESOURCE))?.enabled;
    let now = cx.app.clock.now();
    let sent = webhook_deliveries::resend(&tx, cx.project, id, delivery, now).await?;
    let sent = sent.ok_or_else(|| ApiError::no_such(DELIVERY))?;
    refuse_disabled(enabled)?;
    let details = json!({ "deliveryId": delivery });
    audit_log::record(cx, &tx, "webhook_endpoint.resent", (id, ""), details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    ok(&DeliveryView::from(sent))
}

/// `POST /webhook-endpoints/:id/test`
pub async fn test(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, RESOURCE)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let endpoint = webhook_endpoints::get_for_update(&tx, cx.project, id).await?;
    refuse_disabled(endpoint.ok_or_else(|| ApiError::no_such(RESOURCE))?.enabled)?;
    let now = cx.app.clock.now();
    let delivery = ids::fresh(now.as_millisecond());
    enqueue::test(&tx, cx.project, id, delivery, now).await?;
    let made = webhook_deliveries::get(&tx, cx.project, id, delivery).await?;
    let made = made.ok_or_else(|| ApiError::no_such(DELIVERY))?;
    audit_log::record(cx, &tx, "webhook_endpoint.tested", (id, ""), json!({ "deliveryId": delivery })).await?;
    tx.commit().await.map_err(StoreError::from)?;
    created(&DeliveryView::from(made))
}

fn refuse_disabled(enabled: bool) -> Result<(), ApiError> {
    let refusal = || ApiError::Conflict("the endpoint is disabled; enable it first".to_owned());
    if enabled { Ok(()) } else { Err(refusal()) }
}
