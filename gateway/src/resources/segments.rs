//! Segments.

mod dependencies;
pub mod evaluate;
mod explain;
mod input;
mod members;
mod report;

use database::StoreError;
use deadpool_postgres::Transaction;
use http::StatusCode;
use jiff::Timestamp;
use kernel::ids;
use serde::Serialize;
use serde_json::{Value, json};
use store_profiles::segments::follow::{self, Follow};
use store_profiles::segments::{self, Segment};
use store_sending::{automations, campaigns};
use uuid::Uuid;

use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::etag::{EntityTag, Precondition};
use crate::http::respond::{Reply, deleted};
use crate::resources::paging::CursorPage;
use crate::resources::{audit_log, idempotency, path_params, time_format};
use evaluate::Count;

pub use explain::explain;
pub use members::{change_members, estimate, list_users};
pub use report::report;

/// Maximum number of segments per page; small, because the users of each are counted.
const LIST_MAX: i64 = 100;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SegmentView {
    id: Uuid,
    name: String,
    description: String,
    #[serde(rename = "type")]
    segment_type: &'static str,
    rules: Value,
    #[serde(flatten)]
    count: Count,
    membership: Option<MembershipView>,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    updated_at: Timestamp,
}

/// Status of tracking a segment's members, for segments that trigger an automation.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MembershipView {
    status: &'static str,
    /// From 0 to 1.
    progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl MembershipView {
    fn new(follow: &Follow) -> Self {
        let status = match follow {
            Follow { error: Some(_), .. } => "failed",
            Follow { filled: true, .. } => "kept",
            _ => "filling",
        };
        let progress = (follow.progress() * 1_000.0).floor() / 1_000.0;
        Self { status, progress, error: follow.error.clone() }
    }
}

impl SegmentView {
    fn new(segment: Segment, count: Count, follow: Option<&Follow>) -> Self {
        Self {
            id: segment.id,
            name: segment.name,
            description: segment.description,
            segment_type: segment.segment_type.as_str(),
            rules: segment.rules,
            count,
            membership: follow.map(MembershipView::new),
            created_at: segment.created_at,
            updated_at: segment.updated_at,
        }
    }

    async fn counted(cx: &Context<'_>, segment: Segment) -> Result<Self, ApiError> {
        let count = evaluate::count_of(cx, segment.id).await?;
        let followed = follow::wanted(&cx.database().await?, cx.project).await?;
        let follow = followed.get(&segment.id);
        Ok(Self::new(segment, count, follow))
    }
}

fn tag(of: &Segment) -> Result<EntityTag, ApiError> {
    let Segment { id: _, name, description, segment_type, rules, created_at: _, updated_at: _ } = of;
    EntityTag::of(&(name, description, segment_type.as_str(), rules))
}

/// Returns the segment with its user count and entity tag.
async fn tagged_reply(cx: &Context<'_>, status: StatusCode, segment: Segment) -> Result<Reply, ApiError> {
    let tag = tag(&segment)?;
    Ok(Reply::json(status, &SegmentView::counted(cx, segment).await?)?.with_etag(&tag))
}

/// `GET /segments`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let page = CursorPage::of(&cx.query()?, LIST_MAX)?;
    let mut found = segments::list(&cx.database().await?, cx.project, page.after, page.rows()).await?;
    let end = page.cut(&mut found, |segment| segment.id);
    let ids: Vec<Uuid> = found.iter().map(|segment| segment.id).collect();
    let counts = evaluate::counts_of(cx, &ids).await?;
    let followed = follow::wanted(&cx.database().await?, cx.project).await?;
    let view = |(segment, count): (Segment, Count)| {
        let follow = followed.get(&segment.id);
        SegmentView::new(segment, count, follow)
    };
    end.reply("segments", found.into_iter().zip(counts).map(view))
}

/// `GET /segments/:id`
pub async fn get(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    tagged_reply(cx, StatusCode::OK, found(cx, segment).await?).await
}

async fn found(cx: &Context<'_>, segment: &str) -> Result<Segment, ApiError> {
    let id = path_params::id(segment, "segment")?;
    let db = cx.database().await?;
    segments::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("segment"))
}

/// `POST /segments`
pub async fn create(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(body::MAX_BYTES).await?;
    let now = cx.app.clock.now();
    let mut segment = input::new_segment(&body, ids::fresh(now.as_millisecond()), now)?;
    {
        let mut db = cx.database().await?;
        let tx = db.transaction().await.map_err(StoreError::from)?;
        segments::begin_change(&tx).await?;
        match idempotency::existing_id(cx, &tx, "segment", segment.id).await? {
            Some(existing) => {
                segment =
                    segments::get(&tx, cx.project, existing).await?.ok_or_else(idempotency::deleted_resource_error)?;
            }
            None => {
                dependencies::check(cx, &tx, &segment).await?;
                segments::insert(&tx, cx.project, &segment).await?;
                audit_log::record(cx, &tx, "segment.created", (segment.id, &segment.name), json!({})).await?;
            }
        }
        tx.commit().await.map_err(StoreError::from)?;
    }
    tagged_reply(cx, StatusCode::CREATED, segment).await
}

/// `PUT /segments/:id`
pub async fn update(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "segment")?;
    let precondition = Precondition::of(cx.headers)?;
    let body = cx.read_json(body::MAX_BYTES).await?;
    let segment = {
        let mut db = cx.database().await?;
        let tx = db.transaction().await.map_err(StoreError::from)?;
        segments::begin_change(&tx).await?;
        let current = locked(cx, &tx, id).await?;
        precondition.check("segment", || tag(&current))?;
        let now = cx.app.clock.now();
        let segment = input::changed_segment(&body, current.clone(), now)?;
        dependencies::check(cx, &tx, &segment).await?;
        segments::update(&tx, cx.project, &segment).await?;
        if segment.rules != current.rules {
            follow::rules_changed(&tx, cx.project, id, now).await?;
        }
        audit_log::record(cx, &tx, "segment.updated", (id, &segment.name), json!({})).await?;
        tx.commit().await.map_err(StoreError::from)?;
        segment
    };
    tagged_reply(cx, StatusCode::OK, segment).await
}

/// `DELETE /segments/:id`
pub async fn delete(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "segment")?;
    let precondition = Precondition::of(cx.headers)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    segments::begin_change(&tx).await?;
    let segment = locked(cx, &tx, id).await?;
    precondition.check("segment", || tag(&segment))?;
    if let Some((other, name)) = segments::find_dependent(&tx, cx.project, id).await? {
        let reason = format!("the rules of the segment {name:?} ({other}) refer to this one; change them first");
        return Err(ApiError::Conflict(reason));
    }
    if let Some((campaign, name)) = campaigns::uses_segment(&tx, cx.project, id).await? {
        let reason = format!("the campaign {name:?} ({campaign}) uses this segment; change, cancel or delete it first");
        return Err(ApiError::Conflict(reason));
    }
    if let Some((automation, name)) = automations::uses_segment(&tx, cx.project, id).await? {
        let reason = format!(
            "the automation {name:?} ({automation}) is triggered by this segment; change, stop or delete it first"
        );
        return Err(ApiError::Conflict(reason));
    }
    segments::delete(&tx, cx.project, id).await?;
    audit_log::record(cx, &tx, "segment.deleted", (id, &segment.name), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    deleted()
}

async fn locked(cx: &Context<'_>, tx: &Transaction<'_>, id: Uuid) -> Result<Segment, ApiError> {
    segments::get_for_update(tx, cx.project, id).await?.ok_or_else(|| ApiError::no_such("segment"))
}
