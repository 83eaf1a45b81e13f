//! Validates direct messages in request bodies.

use domain::message::Channel;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};
use crate::resources::templates::{SUBJECT, parses, url};

const USER: Text = Text::line(200);
const BODY: Text = Text::any(CONTENT_MAX);
/// Maximum size of content and data as JSON, in bytes: a message must fit into one broker message.
pub const CONTENT_MAX: usize = 500_000;

const READ_ONLY: &[&str] = &[
    "id",
    "status",
    "statusReason",
    "anonymousId",
    "automationId",
    "runId",
    "attempts",
    "ambiguousAttempts",
    "provider",
    "providerMessageId",
    "devices",
    "segments",
    "createdAt",
    "sentAt",
    "deliveredAt",
    "openedAt",
    "clickedAt",
    "failedAt",
    "bouncedAt",
    "complainedAt",
];

/// A direct message as sent by the client.
#[derive(Debug, PartialEq)]
pub struct DirectInput {
    /// External or internal user ID.
    pub user: String,
    pub channel: Channel,
    /// `{subject, body, url?}`, or an empty object if a template is used. Each value is a template; only push has a
    /// `url`. An MJML body also has `compiled`.
    pub content: Value,
    pub template_id: Option<Uuid>,
    /// An object with the values available to the template in addition to the user.
    pub data: Value,
}

pub fn channels_allowed() -> String {
    format!("must be one of {} (case-insensitive)", Channel::ALL.map(Channel::as_str).join(", "))
}

/// Validates a message. Does not check that the template exists.
pub fn direct(body: &Map<String, Value>) -> Result<DirectInput, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    let user = user(&mut fields);
    let channel = channel(&mut fields);
    let template_id = template_id(&mut fields);
    let content = content(&mut fields, channel);
    let data = fields.element("data").filter(|d| !d.value().is_null());
    if let Some(element) = data.as_ref().filter(|d| !d.value().is_object()) {
        element.problem("must be an object");
    }
    let data = data.map_or_else(|| json!({}), |d| d.value().clone());
    if content.to_string().len() + data.to_string().len() > CONTENT_MAX {
        fields.problem("body", format!("content and data must have at most {CONTENT_MAX} bytes together"));
    }
    fields.finish()?;
    Ok(DirectInput { user, channel, content, template_id, data })
}

/// Reads `userId` or `user_id`.
fn user(fields: &mut Fields<'_>) -> String {
    let (camel, snake) = (fields.text("userId", &USER), fields.text("user_id", &USER));
    let named =
        (fields.has("userId") && !fields.is_null("userId")) || (fields.has("user_id") && !fields.is_null("user_id"));
    match (camel, snake) {
        (Some(one), Some(other)) if one != other => fields.problem("user_id", "differs from userId"),
        (None, None) if !named => fields.problem("userId", "is required"),
        _ => {}
    }
    camel.or(snake).unwrap_or_default().to_owned()
}

fn channel(fields: &mut Fields<'_>) -> Channel {
    let sent = fields.element("channel").filter(|c| !c.value().is_null());
    match sent.as_ref().map(|c| c.value().as_str().and_then(Channel::parse)) {
        None => fields.problem("channel", "is required"),
        Some(None) => fields.problem("channel", channels_allowed()),
        Some(Some(channel)) => return channel,
    }
    Channel::Email
}

fn template_id(fields: &mut Fields<'_>) -> Option<Uuid> {
    let text = fields.text("templateId", &Text::any(100))?;
    let id = Uuid::try_parse(text).ok();
    if id.is_none() {
        fields.problem("templateId", "no such template in this project");
    }
    id
}

/// Reads `subject` and `body`, or `content` with `title` and `body`; none of them is allowed with a template. An SMS
/// needs only a body, and a push may have a `url`.
fn content(fields: &mut Fields<'_>, channel: Channel) -> Value {
    let needs_title = channel != Channel::Sms;
    let (mut subject, mut body) = (fields.text("subject", &SUBJECT), fields.text("body", &BODY));
    let flat = (sent(fields, "subject"), sent(fields, "body"), sent(fields, "url"));
    let nested = sent(fields, "content");
    if sent(fields, "templateId") {
        let given = [("subject", flat.0), ("body", flat.1), ("url", flat.2), ("content", nested)];
        for (name, _) in given.into_iter().filter(|field| field.1) {
            fields.problem(name, "cannot be combined with templateId");
        }
        // Read `content` anyway, so that its fields are not reported as unknown.
        fields.object("content");
        return json!({});
    }
    if nested && (flat.0 || flat.1 || flat.2) {
        fields.problem("content", "cannot be combined with subject, body or url");
    }
    let mut opened = None;
    match fields.object("content") {
        Some(mut inner) => {
            subject =
                if needs_title { Some(inner.required_text("title", &SUBJECT)) } else { inner.text("title", &SUBJECT) };
            body = Some(inner.required_text("body", &BODY));
            parses(&inner, "title", subject.unwrap_or_default());
            parses(&inner, "body", body.unwrap_or_default());
            opened = url(&mut inner, Some(channel));
            inner.done();
        }
        None if nested => {}
        None => {
            for (name, is_present, text) in [("subject", flat.0, subject), ("body", flat.1, body)] {
                if !is_present && (needs_title || name == "body") {
                    fields.problem(name, "is required, or a templateId");
                }
                parses(fields, name, text.unwrap_or_default());
            }
            opened = url(fields, Some(channel));
        }
    }
    let mut content = json!({ "subject": subject.unwrap_or_default(), "body": body.unwrap_or_default() });
    if let Some(url) = opened {
        content["url"] = url.into();
    }
    content
}

fn sent(fields: &mut Fields<'_>, name: &'static str) -> bool {
    fields.has(name) && !fields.is_null(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(value: &Value) -> Result<DirectInput, Vec<String>> {
        direct(value.as_object().unwrap()).map_err(|e| e.details().iter().map(|p| p.field.clone()).collect())
    }

    #[test]
    fn flat_and_nested_forms_are_equivalent() {
        let flat = json!({"userId": "u1", "channel": "EMAIL", "subject": "Hi", "body": "B {{ user.name }}"});
        let nested =
            json!({"user_id": "u1", "channel": "email", "content": {"title": "Hi", "body": "B {{ user.name }}"}});
        assert_eq!(parsed(&flat).unwrap(), parsed(&nested).unwrap());
        assert_eq!(parsed(&flat).unwrap().content, json!({"subject": "Hi", "body": "B {{ user.name }}"}));
    }

    #[test]
    fn channel_name_is_case_insensitive() {
        for channel in ["PUSH", "push"] {
            let input = json!({"user_id": "u1", "channel": channel, "content": {"title": "Hi", "body": "B"}});
            assert_eq!(parsed(&input).unwrap().channel, Channel::Push);
        }
    }

    #[test]
    fn only_push_accepts_a_url() {
        let flat = json!({"userId": "u1", "channel": "PUSH", "subject": "t", "body": "b", "url": "/a/{{ id }}"});
        let nested = |channel: &str, url: Value| {
            parsed(&json!({"user_id": "u1", "channel": channel, "content": {"title": "t", "body": "b", "url": url}}))
        };
        let content = json!({"subject": "t", "body": "b", "url": "/a/{{ id }}"});
        assert_eq!(parsed(&flat).unwrap().content, content);
        assert_eq!(nested("push", json!("/a/{{ id }}")).unwrap().content, content);
        assert_eq!(nested("email", json!(null)).unwrap().content, json!({"subject": "t", "body": "b"}));
        for (channel, url) in [("push", "javascript:x"), ("push", "a"), ("push", ""), ("push", "/{{"), ("email", "/a")]
        {
            assert_eq!(nested(channel, json!(url)).unwrap_err(), ["content.url"], "{channel} {url}");
        }
        let mut mail = flat;
        mail["channel"] = json!("EMAIL");
        assert_eq!(parsed(&mail).unwrap_err(), ["url"]);
        let with_template = json!({"userId": "u1", "channel": "PUSH", "templateId": Uuid::nil(), "url": "/a"});
        assert_eq!(parsed(&with_template).unwrap_err(), ["url"]);
        let both = json!({"userId": "u1", "channel": "PUSH", "url": "/a", "content": {"title": "t", "body": "b"}});
        assert_eq!(parsed(&both).unwrap_err(), ["content"]);
    }

    #[test]
    fn sms_requires_only_a_body() {
        let flat = parsed(&json!({"userId": "u1", "channel": "SMS", "body": "Code {{ code }}"})).unwrap();
        assert_eq!((flat.channel, &flat.content["body"]), (Channel::Sms, &json!("Code {{ code }}")));
        let nested = json!({"userId": "u1", "channel": "sms", "content": {"body": "Code {{ code }}"}});
        assert_eq!(parsed(&nested).unwrap(), flat);
        assert_eq!(parsed(&json!({"userId": "u1", "channel": "SMS"})).unwrap_err(), ["body"]);
        assert_eq!(parsed(&json!({"userId": "u1", "channel": "IN_APP", "body": "x"})).unwrap_err(), ["subject"]);
    }

    #[test]
    fn template_replaces_the_content() {
        let id = Uuid::from_u128(7);
        let input = parsed(&json!({"userId": "u1", "channel": "EMAIL", "templateId": id, "data": {"a": 1}})).unwrap();
        assert_eq!((input.template_id, input.content, input.data), (Some(id), json!({}), json!({"a": 1})));
    }

    #[test]
    fn invalid_fields_are_reported() {
        let id = Uuid::from_u128(7);
        for (value, fields) in [
            (json!({}), &["userId", "channel", "subject", "body"][..]),
            (json!({"userId": ""}), &["userId"]),
            (json!({"userId": 5}), &["userId"]),
            (json!({"userId": "a", "user_id": "b"}), &["user_id"]),
            (json!({"channel": "fax"}), &["channel"]),
            (json!({"subject": "a\r\nBcc: x@y.z"}), &["subject"]),
            (json!({"subject": "{{"}), &["subject"]),
            (json!({"body": "{% if %}"}), &["body"]),
            (json!({"body": "b".repeat(CONTENT_MAX)}), &["body"]),
            (json!({"templateId": "x"}), &["templateId", "subject", "body"]),
            (json!({"templateId": id}), &["subject", "body"]),
            (json!({"content": {"title": "a", "body": "b"}}), &["content"]),
            (json!({"subject": null, "body": null, "content": {"title": "a"}}), &["content.body"]),
            (
                json!({"subject": null, "body": null, "content": {"title": "{{", "body": "", "x": 1}}),
                &["content.title", "content.x"],
            ),
            (json!({"data": []}), &["data"]),
            (json!({"bodyy": ""}), &["bodyy"]),
        ] {
            let mut whole = match value.as_object().unwrap() {
                empty if empty.is_empty() => Map::new(),
                _ => json!({"userId": "a", "channel": "EMAIL", "subject": "s", "body": "b"})
                    .as_object()
                    .cloned()
                    .unwrap(),
            };
            whole.extend(value.as_object().cloned().unwrap());
            assert_eq!(parsed(&Value::Object(whole)).unwrap_err(), fields, "{value:.100}");
        }
    }
}
