//! Campaigns.

mod input;
mod report;
mod test_messages;
mod transition;

use database::StoreError;
use deadpool_postgres::Transaction;
use domain::campaign::{CampaignStatus, Settings, Variant, Winner};
use domain::message::Channel;
use http::StatusCode;
use jiff::Timestamp;
use kernel::clock::rfc3339;
use kernel::ids;
use serde::Serialize;
use serde_json::{Value, json};
use store_profiles::{segments, subscription_groups};
use store_projects::templates;
use store_sending::campaigns::{self, Campaign};
use store_sending::send_chunks::campaign as chunks;
use uuid::Uuid;

use crate::context::Context;
use crate::http::body;
use crate::http::error::{ApiError, Problem};
use crate::http::etag::{EntityTag, Precondition};
use crate::http::respond::{Reply, deleted};
use crate::resources::paging::CursorPage;
use crate::resources::{audit_log, idempotency, path_params, time_format};

pub use report::report;
pub use test_messages::test;
pub use transition::{cancel, pause, resume, send};

/// Maximum number of campaigns per page.
const LIST_MAX: i64 = 1_000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CampaignView {
    id: Uuid,
    name: String,
    channel: &'static str,
    segment_id: Uuid,
    exclude_segment_ids: Vec<Uuid>,
    template_id: Option<Uuid>,
    subscription_group_id: Option<Uuid>,
    #[serde(flatten)]
    settings: Settings,
    #[serde(serialize_with = "time_format::maybe_time")]
    scheduled_at: Option<Timestamp>,
    status: &'static str,
    status_reason: Option<String>,
    #[serde(serialize_with = "time_format::maybe_time")]
    started_at: Option<Timestamp>,
    recipients: i64,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    updated_at: Timestamp,
}

impl From<Campaign> for CampaignView {
    fn from(campaign: Campaign) -> Self {
        Self {
            id: campaign.id,
            name: campaign.name,
            channel: campaign.channel.as_str(),
            segment_id: campaign.segment_id,
            exclude_segment_ids: campaign.exclude_segment_ids,
            template_id: campaign.template_id,
            subscription_group_id: campaign.subscription_group_id,
            settings: campaign.settings,
            scheduled_at: campaign.scheduled_at,
            status: campaign.status.as_str(),
            status_reason: campaign.status_reason,
            started_at: campaign.started_at,
            recipients: campaign.recipients,
            created_at: campaign.created_at,
            updated_at: campaign.updated_at,
        }
    }
}

/// Covers the settings and the status, which determines the allowed actions, but no progress counters.
fn tag(of: &Campaign) -> Result<EntityTag, ApiError> {
    let Campaign { name, channel, segment_id, exclude_segment_ids, template_id, settings, .. } = of;
    let Campaign { subscription_group_id, scheduled_at, status, .. } = of;
    let audience = (segment_id, exclude_segment_ids, subscription_group_id);
    let time = scheduled_at.map(rfc3339);
    EntityTag::of(&(name, channel.as_str(), audience, template_id, settings, time, status.as_str()))
}

/// Returns the campaign with its entity tag.
fn tagged_reply(status: StatusCode, campaign: Campaign) -> Result<Reply, ApiError> {
    let tag = tag(&campaign)?;
    Ok(Reply::json(status, &CampaignView::from(campaign))?.with_etag(&tag))
}

/// `GET /campaigns`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let status = query.choice("status", &CampaignStatus::ALL.map(|status| (status.as_str(), status)))?;
    let page = CursorPage::of(&query, LIST_MAX)?;
    let db = cx.database().await?;
    let mut found = campaigns::list(&db, cx.project, status, page.after, page.rows()).await?;
    let end = page.cut(&mut found, |campaign| campaign.id);
    end.reply("campaigns", found.into_iter().map(CampaignView::from))
}

/// `GET /campaigns/:id`
pub async fn get(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "campaign")?;
    let db = cx.database().await?;
    let campaign = campaigns::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("campaign"))?;
    tagged_reply(StatusCode::OK, campaign)
}

/// `POST /campaigns`
pub async fn create(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(body::MAX_BYTES).await?;
    let now = cx.app.clock.now();
    let mut campaign = input::new_campaign(&body, ids::fresh(now.as_millisecond()), now)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    match idempotency::existing_id(cx, &tx, "campaign", campaign.id).await? {
        Some(existing) => {
            campaign =
                campaigns::get(&tx, cx.project, existing).await?.ok_or_else(idempotency::deleted_resource_error)?;
        }
        None => {
            check_references(cx, &tx, &campaign).await?;
            campaigns::insert(&tx, cx.project, &campaign).await?;
            record_audit(cx, &tx, "campaign.created", &campaign, json!({})).await?;
        }
    }
    tx.commit().await.map_err(StoreError::from)?;
    tagged_reply(StatusCode::CREATED, campaign)
}

/// `PUT /campaigns/:id`
pub async fn update(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "campaign")?;
    let precondition = Precondition::of(cx.headers)?;
    let body = cx.read_json(body::MAX_BYTES).await?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let current = locked(cx, &tx, id).await?;
    precondition.check("campaign", || tag(&current))?;
    let campaign = input::changed_campaign(&body, current.clone(), cx.app.clock.now())?;
    // A client may send back what it read: only fields with another value are changes.
    let renamed = Campaign { name: campaign.name.clone(), updated_at: campaign.updated_at, ..current.clone() };
    if campaign != renamed {
        if !current.status.is_editable() {
            let reason = format!("only the name of a campaign that is {} can be changed", current.status.as_str());
            return Err(ApiError::Conflict(reason));
        }
        if current.under_way && AudienceSettings::of(&current) != AudienceSettings::of(&campaign) {
            let reason = "a campaign that is being sent keeps its channel, variants, winner, sendInUserTimezone and \
                          subscriptionGroupId; cancel it, or let it end";
            return Err(ApiError::Conflict(reason.to_owned()));
        }
        check_references(cx, &tx, &campaign).await?;
    }
    campaigns::update(&tx, cx.project, &campaign).await?;
    record_audit(cx, &tx, "campaign.updated", &campaign, json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    tagged_reply(StatusCode::OK, campaign)
}

/// `DELETE /campaigns/:id`
pub async fn delete(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "campaign")?;
    let precondition = Precondition::of(cx.headers)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let campaign = locked(cx, &tx, id).await?;
    precondition.check("campaign", || tag(&campaign))?;
    if campaign.status == CampaignStatus::Sending || (campaign.status == CampaignStatus::Paused && campaign.under_way) {
        return Err(ApiError::Conflict("the campaign is being sent; cancel it first".to_owned()));
    }
    if chunks::is_open(&tx, chunks::CampaignRef { project: cx.project, campaign: id }).await? {
        let can_be_cancelled = matches!(campaign.status, CampaignStatus::Scheduled | CampaignStatus::Paused);
        let remedy = if can_be_cancelled { "cancel it first" } else { "try again later" };
        return Err(ApiError::Conflict(format!("some of its messages are still queued or being sent; {remedy}")));
    }
    campaigns::delete(&tx, cx.project, id).await?;
    record_audit(cx, &tx, "campaign.deleted", &campaign, json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    deleted()
}

/// The settings that determined the recipients and their messages when the audience was snapshotted.
#[derive(PartialEq)]
struct AudienceSettings<'a> {
    channel: Channel,
    variants: &'a [Variant],
    winner: Option<&'a Winner>,
    send_in_user_timezone: bool,
    subscription_group: Option<Uuid>,
}

impl<'a> AudienceSettings<'a> {
    fn of(campaign: &'a Campaign) -> Self {
        let Campaign { channel, settings, subscription_group_id, .. } = campaign;
        Self {
            channel: *channel,
            variants: &settings.variants,
            winner: settings.winner.as_ref(),
            send_in_user_timezone: settings.send_in_user_timezone,
            subscription_group: *subscription_group_id,
        }
    }
}

async fn locked(cx: &Context<'_>, tx: &Transaction<'_>, id: Uuid) -> Result<Campaign, ApiError> {
    campaigns::get_for_update(tx, cx.project, id).await?.ok_or_else(|| ApiError::no_such("campaign"))
}

async fn record_audit(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    action: &'static str,
    campaign: &Campaign,
    details: Value,
) -> Result<(), ApiError> {
    audit_log::record(cx, tx, action, (campaign.id, &campaign.name), details).await
}

/// Checks that segments, templates and the subscription group belong to this project, and that the templates match the
/// campaign's channel. None of them can be deleted until the transaction ends.
async fn check_references(cx: &Context<'_>, tx: &Transaction<'_>, campaign: &Campaign) -> Result<(), ApiError> {
    let mut problems = Vec::new();
    let existing = segments::existing(tx, cx.project, &campaign.segment_ids()).await?;
    let excluded = campaign.exclude_segment_ids.iter().enumerate();
    let references = std::iter::once(("segmentId".to_owned(), &campaign.segment_id))
        .chain(excluded.map(|(i, id)| (format!("excludeSegmentIds[{i}]"), id)));
    for (field, _) in references.filter(|(_, id)| !existing.contains(id)) {
        problems.push(Problem::new(field, "no such segment in this project"));
    }
    problems.extend(template_problems(cx, tx, campaign).await?);
    let group = campaign.subscription_group_id;
    if subscription_groups::existing(tx, cx.project, group.as_slice()).await?.len() < group.iter().len() {
        problems.push(Problem::new("subscriptionGroupId", "no such subscription group in this project"));
    }
    if problems.is_empty() { Ok(()) } else { Err(ApiError::Invalid(problems)) }
}

/// Like [`check_references`], for templates only.
async fn check_templates(cx: &Context<'_>, tx: &Transaction<'_>, campaign: &Campaign) -> Result<(), ApiError> {
    let problems = template_problems(cx, tx, campaign).await?;
    if problems.is_empty() { Ok(()) } else { Err(ApiError::Invalid(problems)) }
}

async fn template_problems(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    campaign: &Campaign,
) -> Result<Vec<Problem>, ApiError> {
    let mut problems = Vec::new();
    let channels = templates::channels_of(tx, cx.project, &campaign.template_ids()).await?;
    let variants = campaign.settings.variants.iter().enumerate();
    let references = campaign
        .template_id
        .iter()
        .map(|id| ("templateId".to_owned(), *id))
        .chain(variants.map(|(i, variant)| (format!("variants[{i}].templateId"), variant.template_id)));
    for (field, id) in references {
        let (wanted, problem) = (campaign.channel, channels.get(&id));
        match problem {
            Some(channel) if *channel == wanted => {}
            Some(other) => {
                let (other, wanted) = (other.as_str(), wanted.as_str());
                let why = format!("is a template for channel {other}; this campaign requires one for {wanted}");
                problems.push(Problem::new(field, why));
            }
            None => problems.push(Problem::new(field, "no such template in this project")),
        }
    }
    Ok(problems)
}
