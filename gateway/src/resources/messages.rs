//! Messages: sends direct messages, and reads the ledger.

mod input;
mod mjml;
pub mod send;

use std::collections::HashMap;

use domain::message::{Channel, DeliveryState};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use store_profiles::users::read::{self as users, UserSummary};
use store_profiles::users::user_ref::UserRef;
use store_sending::erasures;
use store_sending::messages::read::{self, Message, MessageFilter};
use uuid::Uuid;

use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::query::Query;
use crate::http::respond::{Reply, ok};
use crate::resources::paging::NumberedPage;
use crate::resources::{id_type, path_params, time_format};

pub use send::send;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MessageView {
    id: Uuid,
    status: &'static str,
    status_reason: Option<String>,
    user_id: Option<String>,
    anonymous_id: Option<String>,
    channel: &'static str,
    subject: Option<String>,
    body: Option<Value>,
    content: Option<Value>,
    template_id: Option<Uuid>,
    automation_id: Option<Uuid>,
    run_id: Option<Uuid>,
    attempts: i32,
    ambiguous_attempts: i32,
    provider: Option<String>,
    provider_message_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    segments: Option<i32>,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::maybe_time")]
    sent_at: Option<Timestamp>,
    #[serde(serialize_with = "time_format::maybe_time")]
    delivered_at: Option<Timestamp>,
    #[serde(serialize_with = "time_format::maybe_time")]
    opened_at: Option<Timestamp>,
    #[serde(serialize_with = "time_format::maybe_time")]
    clicked_at: Option<Timestamp>,
    #[serde(serialize_with = "time_format::maybe_time")]
    failed_at: Option<Timestamp>,
    #[serde(serialize_with = "time_format::maybe_time")]
    bounced_at: Option<Timestamp>,
    #[serde(serialize_with = "time_format::maybe_time")]
    complained_at: Option<Timestamp>,
}

impl MessageView {
    fn new(message: Message, users: &HashMap<Uuid, UserSummary>) -> Self {
        let user = users.get(&message.user_id).cloned().unwrap_or_default();
        Self {
            id: message.id,
            status: message.status.as_str(),
            status_reason: message.status_reason,
            user_id: user.external_id,
            anonymous_id: user.anonymous_id,
            channel: message.channel.as_str(),
            subject: message.subject.or_else(|| message.content.get("subject")?.as_str().map(str::to_owned)),
            body: message.content.get("body").cloned(),
            content: titled(message.channel, &message.content),
            template_id: message.template_id,
            automation_id: message.automation_id,
            run_id: message.run_id,
            attempts: message.attempts,
            ambiguous_attempts: message.ambiguous,
            provider: message.provider,
            provider_message_id: message.provider_message_id,
            devices: message.devices,
            segments: message.segments,
            created_at: message.created_at,
            sent_at: message.sent_at,
            delivered_at: message.delivered_at,
            opened_at: message.opened_at,
            clicked_at: message.clicked_at,
            failed_at: message.failed_at,
            bounced_at: message.bounced_at,
            complained_at: message.complained_at,
        }
    }
}

/// Returns a direct message's content as `title`, `body` and `url`; `None` for email.
fn titled(channel: Channel, content: &Value) -> Option<Value> {
    let body = content.get("body").filter(|_| channel != Channel::Email)?;
    let mut titled = json!({ "title": content.get("subject"), "body": body });
    if let Some(url) = content.get("url") {
        titled["url"] = url.clone();
    }
    Some(titled)
}

/// `GET /messages`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let page = NumberedPage::of(&query)?;
    let mut filter =
        MessageFilter { user_ids: None, channel: channel(&query)?, status: query.choice("status", &statuses())? };
    let id_type = id_type::of(&query)?;
    let db = cx.database().await?;
    if let Some(user) = query.get("userId").or(query.get("user_id")) {
        let user = UserRef::new(user, id_type);
        filter.user_ids = match users::find_readable_id(&db, cx.project, user).await? {
            Some(user) => Some(users::all_ids(&db, cx.project, user).await?),
            None => Some(user.candidates(cx.project)),
        };
    }
    let mut messages = read::list(&db, cx.project, &filter, &page.start, page.rows()).await?;
    let end = page.cut(&mut messages, |message| message.id);
    let total = read::total(&db, cx.project, &filter).await?;
    let ids: Vec<Uuid> = messages.iter().map(|message| message.user_id).collect();
    let erased = erasures::under_way(&db, cx.project, &ids).await?;
    messages.retain(|message| erased.get(&message.user_id).is_none_or(|at| message.created_at > *at));
    let users = users::summaries(&db, cx.project, &ids).await?;
    end.reply("messages", messages.into_iter().map(|message| MessageView::new(message, &users)), total)
}

/// Parses the channel filter, ignoring case, as the send endpoint does.
fn channel(query: &Query) -> Result<Option<Channel>, ApiError> {
    let Some(text) = query.get("channel") else { return Ok(None) };
    match Channel::parse(text) {
        Some(channel) => Ok(Some(channel)),
        None => Err(ApiError::invalid("channel", input::channels_allowed())),
    }
}

fn statuses() -> [(&'static str, DeliveryState); 10] {
    DeliveryState::ALL.map(|status| (status.as_str(), status))
}

/// `GET /messages/:id`
pub async fn get(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "message")?;
    let db = cx.database().await?;
    let message = read::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("message"))?;
    let users = users::summaries(&db, cx.project, &[message.user_id]).await?;
    ok(&MessageView::new(message, &users))
}
