//! The audit log: who changed what.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use kernel::ids;
use serde::Serialize;
use serde_json::Value;
use store_projects::audit::{self, AuditEntry, AuditFilter, Change};
use uuid::Uuid;

use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::Reply;
use crate::resources::paging::NumberedPage;
use crate::resources::time_format;

/// Records a change of a resource in the transaction that makes it.
///
/// `action` is for example `template.created`, and `resource` the resource's ID and display name (empty if unknown).
/// `details` must not contain secrets.
pub async fn record(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    action: &'static str,
    resource: (Uuid, &str),
    details: Value,
) -> Result<(), ApiError> {
    let (id, name) = resource;
    let (id, name) = (Some(id.to_string()), Some(name).filter(|name| !name.is_empty()));
    write(cx, tx, action, (id, name), details).await
}

/// Like [`record`], for a change that concerns no single resource.
pub async fn record_for_project(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    action: &'static str,
    details: Value,
) -> Result<(), ApiError> {
    write(cx, tx, action, (None, None), details).await
}

async fn write(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    action: &'static str,
    (resource_id, resource_name): (Option<String>, Option<&str>),
    details: Value,
) -> Result<(), ApiError> {
    let now = cx.app.clock.now();
    let change = Change { action, resource_id, resource_name, details, request_id: Some(cx.request_id) };
    let line = ids::fresh(now.as_millisecond());
    Ok(audit::insert(tx, cx.project, line, &cx.caller.actor(), &change, now).await?)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EntryView {
    id: Uuid,
    action: String,
    actor: ActorView,
    resource_id: Option<String>,
    resource_name: Option<String>,
    details: Value,
    request_id: Option<String>,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
}

#[derive(Serialize)]
struct ActorView {
    r#type: String,
    id: Option<Uuid>,
    name: String,
}

impl From<AuditEntry> for EntryView {
    fn from(entry: AuditEntry) -> Self {
        Self {
            id: entry.id,
            action: entry.action,
            actor: ActorView { r#type: entry.actor_type, id: entry.actor_id, name: entry.actor_name },
            resource_id: entry.resource_id,
            resource_name: entry.resource_name,
            details: entry.details,
            request_id: entry.request_id,
            created_at: entry.created_at,
        }
    }
}

/// `GET /audit-log`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let page = NumberedPage::of(&query)?;
    let actor_id = match query.get("actor") {
        None => None,
        Some(text) => Some(
            Uuid::try_parse(text).map_err(|_| ApiError::invalid("actor", "must be the ID of an account or a key"))?,
        ),
    };
    let filter = AuditFilter {
        actor_id,
        action: query.get("action").map(str::to_owned),
        resource_id: query.get("resource").map(str::to_owned),
    };
    let db = cx.database().await?;
    let mut entries = audit::list(&db, cx.project, &filter, &page.start, page.rows()).await?;
    let end = page.cut(&mut entries, |entry| entry.id);
    let total = audit::total(&db, cx.project, &filter).await?;
    end.reply("entries", entries.into_iter().map(EntryView::from), total)
}
