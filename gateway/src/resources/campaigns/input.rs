//! Validates campaigns in request bodies.

mod settings;
#[cfg(test)]
mod tests;

use domain::campaign::CampaignStatus;
use domain::message::Channel;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use store_sending::campaigns::Campaign;
use uuid::Uuid;

use crate::http::error::ApiError;
use crate::http::fields::{Element, Fields, Text};
use crate::ingest::time;
use crate::resources::templates::CHANNELS;

const NAME: Text = Text::line(200);
const READ_ONLY: &[&str] = &["id", "status", "statusReason", "startedAt", "recipients", "createdAt", "updatedAt"];
const EXCLUDED_MAX: usize = 20;
/// How far in the past `scheduledAt` may be.
const LATE: SignedDuration = SignedDuration::from_mins(5);

/// Reads a new campaign. `name`, `channel`, `segmentId` and `templateId` (or `variants`) are required.
pub fn new_campaign(body: &Map<String, Value>, id: Uuid, now: Timestamp) -> Result<Campaign, ApiError> {
    let mut fields = Fields::of(body);
    let blank = Campaign {
        id,
        name: fields.required_text("name", &NAME).to_owned(),
        channel: fields.required_choice("channel", CHANNELS).unwrap_or(Channel::Email),
        segment_id: required_id(&mut fields, "segmentId", "segment").unwrap_or_default(),
        exclude_segment_ids: Vec::new(),
        template_id: None,
        settings: domain::campaign::Settings::default(),
        subscription_group_id: None,
        scheduled_at: None,
        status: CampaignStatus::Draft,
        status_reason: None,
        started_at: None,
        recipients: 0,
        under_way: false,
        created_at: now,
        updated_at: now,
    };
    changed(fields, blank, now)
}

/// Applies the fields in the request to a campaign. Null removes an optional field.
pub fn changed_campaign(body: &Map<String, Value>, current: Campaign, now: Timestamp) -> Result<Campaign, ApiError> {
    let mut fields = Fields::of(body);
    let mut campaign = current;
    fields.not_null(&["name", "channel", "segmentId"]);
    if let Some(name) = fields.text("name", &NAME) {
        name.clone_into(&mut campaign.name);
    }
    if let Some(channel) = fields.choice("channel", CHANNELS) {
        campaign.channel = channel;
    }
    if let Some(id) = id(&mut fields, "segmentId", "segment") {
        campaign.segment_id = id;
    }
    changed(fields, campaign, now)
}

fn changed(mut fields: Fields<'_>, mut campaign: Campaign, now: Timestamp) -> Result<Campaign, ApiError> {
    fields.read_only(READ_ONLY);
    if let Some(excluded) = excluded(&mut fields) {
        campaign.exclude_segment_ids = excluded;
    }
    if fields.is_null("templateId") {
        campaign.template_id = None;
    }
    if let Some(id) = id(&mut fields, "templateId", "template") {
        campaign.template_id = Some(id);
    }
    if fields.is_null("subscriptionGroupId") {
        campaign.subscription_group_id = None;
    }
    if let Some(id) = id(&mut fields, "subscriptionGroupId", "subscription group") {
        campaign.subscription_group_id = Some(id);
    }
    settings::change(&mut fields, &mut campaign.settings, now);
    // Invalid values that were sent have already been reported.
    let tried =
        |element: Element<'_>| !element.value().is_null() && element.value().as_array().is_none_or(|v| !v.is_empty());
    let said = fields.element("variants").is_some_and(tried) || fields.element("templateId").is_some_and(tried);
    if campaign.template_id.is_none() && campaign.settings.variants.is_empty() && !said {
        fields.problem("templateId", "is required, or `variants`");
    }
    schedule(&mut fields, &mut campaign, now);
    fields.finish()?;
    campaign.updated_at = now;
    Ok(campaign)
}

/// Applies `scheduledAt`. A draft with a time becomes scheduled, and a scheduled campaign without one a draft. Other
/// statuses are unchanged.
fn schedule(fields: &mut Fields<'_>, campaign: &mut Campaign, now: Timestamp) {
    if fields.is_null("scheduledAt") {
        campaign.scheduled_at = None;
    } else if let Some(element) = fields.element("scheduledAt") {
        let found = element.value().as_str().and_then(time::parse).map(kernel::clock::from_ms);
        match found {
            None => element.problem("must be an RFC 3339 time with an offset, such as 2026-01-31T08:15:30Z"),
            // A client may send back the stored time unchanged, even if it has passed.
            Some(at) if campaign.scheduled_at == Some(at) => {}
            Some(at) if at < now - LATE => element.problem("must not be more than 5 minutes in the past"),
            Some(at) => campaign.scheduled_at = Some(at),
        }
    }
    campaign.status = match (campaign.status, campaign.scheduled_at) {
        (CampaignStatus::Draft, Some(_)) => CampaignStatus::Scheduled,
        (CampaignStatus::Scheduled, None) => CampaignStatus::Draft,
        (status, _) => status,
    };
}

fn excluded(fields: &mut Fields<'_>) -> Option<Vec<Uuid>> {
    if fields.is_null("excludeSegmentIds") {
        return Some(Vec::new());
    }
    let elements = fields.array("excludeSegmentIds", 0..=EXCLUDED_MAX)?;
    Some(elements.iter().filter_map(|element| element_id(element, "segment")).collect())
}

fn id(fields: &mut Fields<'_>, name: &'static str, what: &str) -> Option<Uuid> {
    let element = fields.element(name).filter(|element| !element.value().is_null())?;
    element_id(&element, what)
}

fn required_id(fields: &mut Fields<'_>, name: &'static str, what: &str) -> Option<Uuid> {
    if fields.is_null(name) || !fields.has(name) {
        fields.problem(name, "is required");
    }
    id(fields, name, what)
}

fn element_id(element: &Element<'_>, what: &str) -> Option<Uuid> {
    let id = element.value().as_str().and_then(|text| Uuid::try_parse(text).ok());
    if id.is_none() {
        element.problem(format!("no such {what} in this project"));
    }
    id
}
