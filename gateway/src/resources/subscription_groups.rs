//! Subscription groups: categories of messages that users can subscribe to or unsubscribe from.

mod input;

use database::StoreError;
use deadpool_postgres::Transaction;
use domain::subscription::GROUPS_MAX;
use http::StatusCode;
use jiff::Timestamp;
use kernel::ids;
use serde::Serialize;
use serde_json::json;
use store_profiles::subscription_groups::{self, SubscriptionGroup};
use store_sending::automations::SendingUse;
use store_sending::{automations, campaigns};
use uuid::Uuid;

use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::etag::{EntityTag, Precondition};
use crate::http::respond::{Reply, deleted, ok};
use crate::resources::{audit_log, idempotency, path_params, time_format};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupView {
    id: Uuid,
    name: String,
    description: String,
    default_subscribed: bool,
    public: bool,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    updated_at: Timestamp,
}

impl From<SubscriptionGroup> for GroupView {
    fn from(group: SubscriptionGroup) -> Self {
        Self {
            id: group.id,
            name: group.name,
            description: group.description,
            default_subscribed: group.default_subscribed,
            public: group.public,
            created_at: group.created_at,
            updated_at: group.updated_at,
        }
    }
}

fn tag(of: &SubscriptionGroup) -> Result<EntityTag, ApiError> {
    let SubscriptionGroup { id: _, name, description, default_subscribed, public, created_at: _, updated_at: _ } = of;
    EntityTag::of(&(name, description, default_subscribed, public))
}

/// Returns the group with its entity tag.
fn tagged_reply(status: StatusCode, group: SubscriptionGroup) -> Result<Reply, ApiError> {
    let tag = tag(&group)?;
    Ok(Reply::json(status, &GroupView::from(group))?.with_etag(&tag))
}

#[derive(Serialize)]
struct ListView {
    groups: Vec<GroupView>,
}

/// `GET /subscription-groups`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let db = cx.database().await?;
    let groups = subscription_groups::list(&db, cx.project).await?;
    ok(&ListView { groups: groups.into_iter().map(GroupView::from).collect() })
}

/// `GET /subscription-groups/:id`
pub async fn get(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "subscription group")?;
    let db = cx.database().await?;
    let group = subscription_groups::get(&db, cx.project, id).await?.ok_or_else(missing)?;
    tagged_reply(StatusCode::OK, group)
}

/// `POST /subscription-groups`
pub async fn create(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(body::MAX_BYTES).await?;
    let now = cx.app.clock.now();
    let mut group = input::new_group(&body, ids::fresh(now.as_millisecond()), now)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    match idempotency::existing_id(cx, &tx, "subscription group", group.id).await? {
        Some(existing) => {
            group = subscription_groups::get(&tx, cx.project, existing)
                .await?
                .ok_or_else(idempotency::deleted_resource_error)?;
        }
        None => {
            if subscription_groups::count_and_lock(&tx, cx.project).await? >= GROUPS_MAX as i64 {
                let reason = format!("a project has at most {GROUPS_MAX} subscription groups; delete one first");
                return Err(ApiError::Conflict(reason));
            }
            subscription_groups::insert(&tx, cx.project, &group).await?;
            audit_log::record(cx, &tx, "subscription_group.created", (group.id, &group.name), json!({})).await?;
        }
    }
    tx.commit().await.map_err(StoreError::from)?;
    tagged_reply(StatusCode::CREATED, group)
}

/// `PUT /subscription-groups/:id`
pub async fn update(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "subscription group")?;
    let precondition = Precondition::of(cx.headers)?;
    let body = cx.read_json(body::MAX_BYTES).await?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let current = locked(cx, &tx, id).await?;
    precondition.check("subscription group", || tag(&current))?;
    let group = input::changed_group(&body, current, cx.app.clock.now())?;
    subscription_groups::update(&tx, cx.project, &group).await?;
    audit_log::record(cx, &tx, "subscription_group.updated", (id, &group.name), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    tagged_reply(StatusCode::OK, group)
}

/// `DELETE /subscription-groups/:id`
pub async fn delete(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "subscription group")?;
    let precondition = Precondition::of(cx.headers)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let group = locked(cx, &tx, id).await?;
    precondition.check("subscription group", || tag(&group))?;
    let used = automations::uses_subscription_group(&tx, cx.project, id).await?;
    if let Some(SendingUse { automation, name, active }) = used {
        return Err(ApiError::Conflict(if active {
            format!("the active automation {name:?} ({automation}) sends to this group; deactivate it first")
        } else {
            format!("active runs of the automation {name:?} ({automation}) send to this group")
        }));
    }
    if let Some((campaign, name)) = campaigns::uses_subscription_group(&tx, cx.project, id).await? {
        let reason =
            format!("the campaign {name:?} ({campaign}) is sent to this group; change, cancel or delete it first");
        return Err(ApiError::Conflict(reason));
    }
    subscription_groups::delete(&tx, cx.project, id, cx.app.clock.now()).await?;
    audit_log::record(cx, &tx, "subscription_group.deleted", (id, &group.name), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    deleted()
}

async fn locked(cx: &Context<'_>, tx: &Transaction<'_>, id: Uuid) -> Result<SubscriptionGroup, ApiError> {
    subscription_groups::get_for_update(tx, cx.project, id).await?.ok_or_else(missing)
}

fn missing() -> ApiError {
    ApiError::no_such("subscription group")
}
