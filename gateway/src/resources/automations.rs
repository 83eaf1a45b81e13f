//! Automations.

mod input;
mod references;
pub mod report;
pub mod runs;
pub mod simulate;

use automation::{DateTrigger, Goal, Reentry, Step};
use database::StoreError;
use database::changes::Topic;
use http::StatusCode;
use jiff::Timestamp;
use kernel::ids;
use serde::Serialize;
use serde_json::{Value, json};
use store_profiles::segments;
use store_sending::automations::{self, Automation};
use uuid::Uuid;

use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::etag::{EntityTag, Precondition};
use crate::http::respond::{Reply, deleted};
use crate::resources::paging::CursorPage;
use crate::resources::{audit_log, change_hint, idempotency, path_params, time_format};

/// Maximum number of automations per page.
const LIST_MAX: i64 = 1_000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AutomationView {
    id: Uuid,
    name: String,
    trigger_type: &'static str,
    trigger_event: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger_segment_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger_date: Option<DateTrigger>,
    trigger_filter: Option<Value>,
    entry_rules: Option<Value>,
    exit_rules: Option<Value>,
    goal: Option<Goal>,
    active: bool,
    reentry: Reentry,
    steps: Vec<Step>,
    version: i32,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    updated_at: Timestamp,
}

impl From<Automation> for AutomationView {
    fn from(automation: Automation) -> Self {
        let definition = automation.definition;
        Self {
            id: automation.id,
            name: automation.name,
            trigger_type: definition.trigger_type.as_str(),
            trigger_event: definition.trigger_event,
            trigger_segment_id: definition.trigger_segment_id,
            trigger_date: definition.trigger_date,
            trigger_filter: definition.trigger_filter,
            entry_rules: definition.entry_rules,
            exit_rules: definition.exit_rules,
            goal: definition.goal,
            active: automation.active,
            reentry: definition.reentry,
            steps: definition.steps,
            version: automation.version,
            created_at: automation.created_at,
            updated_at: automation.updated_at,
        }
    }
}

fn tag(of: &Automation) -> Result<EntityTag, ApiError> {
    let Automation { id: _, name, active, version, definition, created_at: _, updated_at: _ } = of;
    EntityTag::of(&(name, active, version, definition.encode()))
}

/// Returns the automation with its entity tag.
fn tagged_reply(status: StatusCode, automation: Automation) -> Result<Reply, ApiError> {
    let tag = tag(&automation)?;
    Ok(Reply::json(status, &AutomationView::from(automation))?.with_etag(&tag))
}

/// `GET /automations`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let page = CursorPage::of(&cx.query()?, LIST_MAX)?;
    let db = cx.database().await?;
    let mut found = automations::list(&db, cx.project, page.after, page.rows()).await?;
    let end = page.cut(&mut found, |automation| automation.id);
    end.reply("automations", found.into_iter().map(AutomationView::from))
}

/// `GET /automations/:id`
pub async fn get(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "automation")?;
    let db = cx.database().await?;
    let automation = automations::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("automation"))?;
    tagged_reply(StatusCode::OK, automation)
}

/// `POST /automations`
pub async fn create(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(body::MAX_BYTES).await?;
    let now = cx.app.clock.now();
    let mut automation = input::new_automation(&body, ids::fresh(now.as_millisecond()), now)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    match idempotency::existing_id(cx, &tx, "automation", automation.id).await? {
        Some(existing) => {
            automation =
                automations::get(&tx, cx.project, existing).await?.ok_or_else(idempotency::deleted_resource_error)?;
        }
        None => {
            if automation.definition.trigger_type.is_of_segment() {
                segments::begin_change(&tx).await?;
            }
            references::check(cx, &tx, &automation).await?;
            automations::insert(&tx, cx.project, &automation).await?;
            audit_log::record(cx, &tx, "automation.created", (automation.id, &automation.name), json!({})).await?;
        }
    }
    tx.commit().await.map_err(StoreError::from)?;
    change_hint::announce(&cx.app.bus, Topic::Automation).await;
    tagged_reply(StatusCode::CREATED, automation)
}

/// `PUT /automations/:id`
pub async fn update(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "automation")?;
    let precondition = Precondition::of(cx.headers)?;
    let body = cx.read_json(body::MAX_BYTES).await?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let current = automations::get_for_update(&tx, cx.project, id).await?;
    let current = current.ok_or_else(|| ApiError::no_such("automation"))?;
    precondition.check("automation", || tag(&current))?;
    let (was_active, was_version) = (current.active, current.version);
    let was_by_segment = current.definition.trigger_type.is_of_segment();
    let automation = input::changed_automation(&body, current, cx.app.clock.now())?;
    if was_by_segment || automation.definition.trigger_type.is_of_segment() {
        // Take the segment change lock before locking any segment, in the same order as changes of segments.
        segments::begin_change(&tx).await?;
    }
    // A template may have been deleted while the automation was inactive.
    if automation.version != was_version || (automation.active && !was_active) {
        references::check(cx, &tx, &automation).await?;
    }
    automations::update(&tx, cx.project, &automation).await?;
    let details = json!({ "active": automation.active, "version": automation.version });
    audit_log::record(cx, &tx, "automation.updated", (id, &automation.name), details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    change_hint::announce(&cx.app.bus, Topic::Automation).await;
    tagged_reply(StatusCode::OK, automation)
}

/// `DELETE /automations/:id`
pub async fn delete(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "automation")?;
    let precondition = Precondition::of(cx.headers)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let automation = automations::get_for_update(&tx, cx.project, id).await?;
    let automation = automation.ok_or_else(|| ApiError::no_such("automation"))?;
    precondition.check("automation", || tag(&automation))?;
    automations::delete(&tx, cx.project, id, cx.app.clock.now()).await?;
    audit_log::record(cx, &tx, "automation.deleted", (id, &automation.name), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    change_hint::announce(&cx.app.bus, Topic::Automation).await;
    deleted()
}
