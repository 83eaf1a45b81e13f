//! `POST /channels/:channel/test`: sends a test message with the channel's current settings and returns the provider's
//! response.

use std::time::Duration;

use database::StoreError;
use domain::email::is_address;
use domain::message::{Channel, DeliveryState};
use domain::suppression::international;
use kernel::ids;
use serde::Serialize;
use serde_json::{Map, Value, json};
use store_profiles::users::read as users;
use store_profiles::users::user_ref::UserRef;
use tokio::time::Instant;
use uuid::Uuid;

use super::advice;
use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};
use crate::http::query::percent_decoded;
use crate::http::respond::{Reply, ok};
use crate::resources::messages::send::{DirectInput, outcome, publish};
use crate::resources::{audit_log, id_type};

/// Slightly longer than the timeout of a provider call.
const WAIT: Duration = Duration::from_secs(22);
const USER: Text = Text::line(200);
const ADDRESS: Text = Text::line(320);

/// The recipient of a test.
#[derive(Debug, PartialEq)]
struct TestRecipient {
    user: Option<String>,
    to: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TestView {
    /// Whether the provider accepted the message.
    success: bool,
    message_id: Uuid,
    status: &'static str,
    provider: Option<String>,
    /// The provider's error message, or the reason why the message was not sent.
    reason: Option<String>,
    /// What to do about it, if known.
    advice: Option<&'static str>,
    /// The result for each device, for push.
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<Value>,
}

/// `POST /channels/:channel/test`
pub async fn test(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let until = Instant::now() + WAIT;
    let channel = percent_decoded(segment, false).and_then(|name| parse_channel(&name));
    let channel =
        channel.ok_or_else(|| ApiError::NotFound("no such channel; use email, push, in_app or sms".to_owned()))?;
    let id_type = id_type::of(&cx.query()?)?;
    let recipient = recipient(&cx.read_json(body::MAX_BYTES).await?, channel)?;
    let user = match &recipient.user {
        None => Uuid::nil(),
        Some(user) => {
            let user = UserRef::new(user, id_type);
            let found = users::find_id(&cx.database().await?, cx.project, user).await?;
            found.ok_or_else(|| ApiError::invalid("userId", "no such user in this project"))?
        }
    };
    let id = ids::fresh(cx.received_ms);
    let mut content = json!({
        "subject": "A test of this channel",
        "body": "This is a test. If you can read it, the channel works.",
        "test": true,
    });
    if let Some(to) = recipient.to {
        content["to"] = to.into();
    }
    record_audit(cx, id, channel).await?;
    let input = DirectInput { user: String::new(), channel, content, template_id: None, data: json!({}) };
    publish(cx, id, vec![user], &input).await?;
    let Some(message) = outcome(cx, id, until).await else { return ok(&without_outcome(id)) };
    if !message.status.is_terminal() {
        return ok(&without_outcome(id));
    }
    let success =
        !matches!(message.status, DeliveryState::Failed | DeliveryState::Suppressed | DeliveryState::Cancelled);
    // Report each device's error, even if another device accepted the push.
    let devices = message.devices.as_ref().and_then(Value::as_array).into_iter().flatten();
    let reasons: Vec<&str> =
        devices.filter_map(|d| d["reason"].as_str()).chain(message.status_reason.as_deref()).collect();
    ok(&TestView {
        success,
        message_id: id,
        status: message.status.as_str(),
        provider: message.provider,
        advice: reasons.iter().find_map(|reason| advice::for_error(reason)),
        reason: message.status_reason,
        devices: message.devices,
    })
}

/// Records the test in the audit log, since the request may name any recipient.
async fn record_audit(cx: &Context<'_>, message: Uuid, channel: Channel) -> Result<(), ApiError> {
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let details = json!({ "channel": channel.as_str(), "messageId": message });
    audit_log::record_for_project(cx, &tx, "channel.tested", details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    Ok(())
}

fn without_outcome(id: Uuid) -> TestView {
    TestView {
        success: false,
        message_id: id,
        status: DeliveryState::Queued.as_str(),
        provider: None,
        reason: Some("no_outcome: the message was not settled in time".to_owned()),
        advice: Some("Make sure that worker-delivery runs and serves this channel (DELIVERY_CHANNELS)."),
        devices: None,
    }
}

/// Parses a channel name as used in the configuration, ignoring case.
fn parse_channel(name: &str) -> Option<Channel> {
    if name.eq_ignore_ascii_case("inApp") { Some(Channel::InApp) } else { Channel::parse(name) }
}

/// Reads `userId`, or `to` for channels with addresses.
fn recipient(body: &Map<String, Value>, channel: Channel) -> Result<TestRecipient, ApiError> {
    let mut fields = Fields::of(body);
    let user = fields.text("userId", &USER).or(fields.text("user_id", &USER)).map(str::to_owned);
    let to = fields.text("to", &ADDRESS).map(|text| text.trim().to_owned());
    if let Some(problem) = to.as_deref().and_then(|to| unusable_address(channel, to)) {
        fields.problem("to", problem);
    }
    let given = ["userId", "user_id", "to"].into_iter().any(|name| fields.has(name) && !fields.is_null(name));
    if !given {
        match channel {
            Channel::Email | Channel::Sms => fields.problem("to", "is required, or `userId`"),
            Channel::Push | Channel::InApp => fields.problem("userId", "is required"),
        }
    }
    fields.finish()?;
    Ok(TestRecipient { user, to })
}

/// Returns why a test on this channel cannot be sent to an address, if so.
pub fn unusable_address(channel: Channel, to: &str) -> Option<&'static str> {
    match channel {
        Channel::Email if !is_address(to) => Some("must be an email address such as ann@example.com"),
        Channel::Sms if international(to).is_none() => Some("must be a number such as +15551234567"),
        Channel::Email | Channel::Sms => None,
        Channel::Push | Channel::InApp => Some("is allowed for email and SMS only; set `userId` instead"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &Value, channel: Channel) -> Result<TestRecipient, Vec<String>> {
        let read = recipient(body.as_object().unwrap(), channel);
        read.map_err(|e| e.details().iter().map(|p| p.field.clone()).collect())
    }

    #[test]
    fn test_requires_a_recipient() {
        let to = |to: &str| Ok(TestRecipient { user: None, to: Some(to.to_owned()) });
        assert_eq!(read(&json!({"to": " a@b.c "}), Channel::Email), to("a@b.c"));
        assert_eq!(read(&json!({"to": "+15551234567"}), Channel::Sms), to("+15551234567"));
        let user = Ok(TestRecipient { user: Some("u".to_owned()), to: None });
        assert_eq!(read(&json!({"userId": "u"}), Channel::Push), user);
        assert_eq!(read(&json!({"user_id": "u"}), Channel::Email), user);
        for (body, channel, field) in [
            (json!({}), Channel::Email, "to"),
            (json!({}), Channel::Sms, "to"),
            (json!({}), Channel::Push, "userId"),
            (json!({"to": "x"}), Channel::Email, "to"),
            (json!({"to": "0151"}), Channel::Sms, "to"),
            (json!({"to": "a@b.c"}), Channel::InApp, "to"),
            (json!({"userId": ""}), Channel::Push, "userId"),
            (json!({"to": "a@b.c", "x": 1}), Channel::Email, "x"),
        ] {
            assert_eq!(read(&body, channel), Err(vec![field.to_owned()]), "{body} {channel:?}");
        }
    }
}
