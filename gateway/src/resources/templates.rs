//! Message templates.

mod input;
pub mod mail_body;
mod prepare;
pub mod preview;

use database::StoreError;
use database::changes::Topic;
use deadpool_postgres::Transaction;
use http::StatusCode;
use jiff::Timestamp;
use kernel::ids;
use serde::Serialize;
use serde_json::{Map, Value, json};
use store_projects::templates::{self, StoredTemplate, TemplateFilter};
use store_sending::automations::SendingUse;
use store_sending::{automations, campaigns};
use uuid::Uuid;

use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::etag::{EntityTag, Precondition};
use crate::http::respond::{Reply, deleted};
use crate::resources::paging::CursorPage;
use crate::resources::templates::mail_body::PreparedBody;
use crate::resources::{audit_log, change_hint, idempotency, path_params, time_format};

pub use input::CHANNELS;
pub(in crate::resources) use input::{SUBJECT, parses, url};

/// Maximum number of templates per page.
const LIST_MAX: i64 = 1_000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TemplateView {
    id: Uuid,
    name: String,
    channel: &'static str,
    subject: String,
    body: String,
    url: Option<String>,
    tags: Vec<String>,
    ai: bool,
    version: i32,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    updated_at: Timestamp,
}

impl From<StoredTemplate> for TemplateView {
    fn from(template: StoredTemplate) -> Self {
        Self {
            id: template.id,
            name: template.name,
            channel: template.channel.as_str(),
            subject: template.subject,
            body: template.body,
            url: template.url,
            tags: template.tags,
            ai: template.ai,
            version: template.version,
            created_at: template.created_at,
            updated_at: template.updated_at,
        }
    }
}

fn tag(of: &StoredTemplate) -> Result<EntityTag, ApiError> {
    let StoredTemplate { name, channel, subject, body, url, tags, ai, version, .. } = of;
    EntityTag::of(&(name, channel.as_str(), subject, body, url, tags, ai, version))
}

/// Returns the template with its entity tag.
fn tagged_reply(status: StatusCode, template: StoredTemplate) -> Result<Reply, ApiError> {
    let tag = tag(&template)?;
    Ok(Reply::json(status, &TemplateView::from(template))?.with_etag(&tag))
}

/// `GET /templates`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let filter = TemplateFilter { channel: query.choice("channel", CHANNELS)?, ai: query.boolean("ai")? };
    let page = CursorPage::of(&query, LIST_MAX)?;
    let db = cx.database().await?;
    let mut found = templates::list(&db, cx.project, filter, page.after, page.rows()).await?;
    let end = page.cut(&mut found, |template| template.id);
    end.reply("templates", found.into_iter().map(TemplateView::from))
}

/// `GET /templates/:id`
pub async fn get(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "template")?;
    let db = cx.database().await?;
    let template = templates::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("template"))?;
    tagged_reply(StatusCode::OK, template)
}

/// `POST /templates`
pub async fn create(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(body::MAX_BYTES).await?;
    let now = cx.app.clock.now();
    let mut template = input::new_template(&body, ids::fresh(now.as_millisecond()), now)?;
    let prepared = prepare::body(cx, template.channel, &template.body).await?;
    prepare::apply(prepared, &mut template);
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    match idempotency::existing_id(cx, &tx, "template", template.id).await? {
        Some(existing) => {
            template =
                templates::get(&tx, cx.project, existing).await?.ok_or_else(idempotency::deleted_resource_error)?;
        }
        None => {
            templates::insert(&tx, cx.project, &template).await?;
            audit_log::record(cx, &tx, "template.created", (template.id, &template.name), json!({})).await?;
        }
    }
    tx.commit().await.map_err(StoreError::from)?;
    change_hint::announce(&cx.app.bus, Topic::Template).await;
    tagged_reply(StatusCode::CREATED, template)
}

/// `PUT /templates/:id`
pub async fn update(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "template")?;
    let precondition = Precondition::of(cx.headers)?;
    let body = cx.read_json(body::MAX_BYTES).await?;
    let prepared = match body.get("body").and_then(Value::as_str) {
        Some(text) => Some(prepared_body(cx, (id, &precondition), &body, text).await?),
        None => None,
    };
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let current = locked(cx, &tx, id).await?;
    precondition.check("template", || tag(&current))?;
    let mut template = input::changed_template(&body, current, cx.app.clock.now())?;
    if let Some(prepared) = prepared {
        prepare::apply(prepared, &mut template);
    }
    templates::update(&tx, cx.project, &template).await?;
    audit_log::record(cx, &tx, "template.updated", (id, &template.name), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    change_hint::announce(&cx.app.bus, Topic::Template).await;
    tagged_reply(StatusCode::OK, template)
}

/// `DELETE /templates/:id`
pub async fn delete(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "template")?;
    let precondition = Precondition::of(cx.headers)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let template = locked(cx, &tx, id).await?;
    precondition.check("template", || tag(&template))?;
    if let Some(SendingUse { automation, name, active }) = automations::uses_template(&tx, cx.project, id).await? {
        return Err(ApiError::Conflict(if active {
            format!("the active automation {name:?} ({automation}) sends this template; deactivate it first")
        } else {
            format!("active runs of the automation {name:?} ({automation}) send this template")
        }));
    }
    if let Some((campaign, name)) = campaigns::uses_template(&tx, cx.project, id).await? {
        let reason =
            format!("the campaign {name:?} ({campaign}) sends this template; change, cancel or delete it first");
        return Err(ApiError::Conflict(reason));
    }
    templates::delete(&tx, cx.project, id).await?;
    audit_log::record(cx, &tx, "template.deleted", (id, &template.name), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    change_hint::announce(&cx.app.bus, Topic::Template).await;
    deleted()
}

/// Compiles a template's new body after validating the whole request. The caller validates again after locking the
/// row.
async fn prepared_body(
    cx: &Context<'_>,
    (id, precondition): (Uuid, &Precondition),
    sent: &Map<String, Value>,
    text: &str,
) -> Result<PreparedBody, ApiError> {
    let db = cx.database().await?;
    let current = templates::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("template"))?;
    drop(db);
    precondition.check("template", || tag(&current))?;
    // A template never changes its channel.
    let channel = current.channel;
    input::changed_template(sent, current, cx.app.clock.now())?;
    prepare::body(cx, channel, text).await
}

async fn locked(cx: &Context<'_>, tx: &Transaction<'_>, id: Uuid) -> Result<StoredTemplate, ApiError> {
    templates::get_for_update(tx, cx.project, id).await?.ok_or_else(|| ApiError::no_such("template"))
}
