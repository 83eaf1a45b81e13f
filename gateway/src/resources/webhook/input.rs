//! Parses the body of inbound webhooks.

use bytes::Bytes;
use domain::message::DeliveryState;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::http::error::{ApiError, Problem};
use crate::http::fields::{Fields, Text};
use crate::ingest::properties;

const KIND: Text = Text::line(200);
const ID: Text = Text::line(200);
/// About a message or a user. Unlike other `message.*` notifications, it is also stored as an event.
const UNSUBSCRIBED: &str = "message.unsubscribed";

/// A notification. One about a message contains the message's ID; any other may name a user.
#[derive(Debug, PartialEq)]
pub struct Notification {
    pub kind: String,
    /// A JSON object.
    pub data: Bytes,
    pub message: Option<Uuid>,
    pub user_id: Option<String>,
    pub anonymous_id: Option<String>,
}

/// Reads `{ event, data }` and ignores all other fields, since the sender is another program.
///
/// Returns `None` for a notification about a message that cannot be ours: a provider may also send mail for other
/// systems.
pub fn notification(mut body: Map<String, Value>) -> Result<Option<Notification>, ApiError> {
    body.retain(|name, _| name == "event" || name == "data");
    let mut fields = Fields::of(&body);
    let kind = fields.required_text("event", &KIND).to_owned();
    if DeliveryState::from_webhook_kind(&kind).is_some() {
        let data = body.get("data").filter(|data| data.is_object());
        let message = data.and_then(message_id);
        let text = data.map(Value::to_string).filter(|text| properties::find_violation(text).is_none());
        let about = message.zip(text);
        return Ok(about.map(|(message, data)| Notification { message: Some(message), ..Notification::of(kind, data) }));
    }
    let (mut message, mut user_id, mut anonymous_id) = (None, None, None);
    let mut problems = Vec::new();
    let data = fields.element("data").filter(|d| !d.value().is_null());
    let text = data.as_ref().map_or_else(|| "{}".to_owned(), |d| d.value().to_string());
    match data.as_ref().map(|d| (d, d.value().as_object())) {
        Some((element, Some(data))) => {
            if kind == UNSUBSCRIBED {
                message = message_id(element.value());
            }
            user_id = id(data, ["userId", "user_id"], &mut problems);
            anonymous_id = id(data, ["anonymousId", "anonymous_id"], &mut problems);
        }
        Some((data, None)) => data.problem("must be an object"),
        None => {}
    }
    let is_object = data.as_ref().is_none_or(|d| d.value().is_object());
    if let Some(why) = properties::find_violation(&text).filter(|_| is_object && problems.is_empty()) {
        problems.push(Problem::new("data", why));
    }
    for problem in problems {
        fields.problem(&problem.field, problem.message);
    }
    fields.finish()?;
    Ok(Some(Notification { message, user_id, anonymous_id, ..Notification::of(kind, text) }))
}

impl Notification {
    fn of(kind: String, data: String) -> Self {
        Self { kind, data: data.into(), message: None, user_id: None, anonymous_id: None }
    }
}

fn message_id(data: &Value) -> Option<Uuid> {
    Uuid::try_parse(data.get("messageId")?.as_str()?).ok()
}

fn id(data: &Map<String, Value>, names: [&str; 2], problems: &mut Vec<Problem>) -> Option<String> {
    let (name, value) = names.iter().find_map(|name| Some((name, data.get(*name).filter(|v| !v.is_null())?)))?;
    let text = value.as_str().filter(|text| ID.allows(text));
    if text.is_none() {
        let allowed = "must be a string of 1 to 200 characters without control characters";
        problems.push(Problem::new(format!("data.{name}"), allowed));
    }
    text.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Option<Notification>, Vec<String>> {
        let read = notification(value.as_object().cloned().unwrap());
        read.map_err(|e| e.details().iter().map(|p| p.field.clone()).collect())
    }

    #[test]
    fn message_id_is_read_for_message_events() {
        let id = Uuid::from_u128(7);
        let opened = read(json!({"event": "message.opened", "data": {"messageId": id, "userId": "u"}, "id": 5}))
            .unwrap()
            .unwrap();
        assert_eq!((opened.message, opened.user_id), (Some(id), None));
        let other =
            read(json!({"event": "payment.failed", "data": {"messageId": 5, "user_id": "u"}})).unwrap().unwrap();
        assert_eq!((other.message, other.user_id.as_deref()), (None, Some("u")));
        let bare = read(json!({"event": "ping"})).unwrap().unwrap();
        assert_eq!((&bare.data[..], bare.user_id), (&b"{}"[..], None));
    }

    #[test]
    fn message_event_without_a_message_id_is_ignored() {
        for value in [
            json!({"event": "message.opened"}),
            json!({"event": "message.opened", "data": []}),
            json!({"event": "message.opened", "data": {"messageId": "x"}}),
            json!({"event": "message.bounced", "data": {"messageId": 5}}),
        ] {
            assert_eq!(read(value.clone()), Ok(None), "{value}");
        }
        let gone = read(json!({"event": "message.unsubscribed", "data": {"messageId": 5, "userId": "u"}})).unwrap();
        let gone = gone.unwrap();
        assert_eq!((gone.message, gone.user_id.as_deref()), (None, Some("u")));
    }

    #[test]
    fn invalid_fields_are_reported() {
        for (value, fields) in [
            (json!({}), &["event"][..]),
            (json!({"event": "", "data": []}), &["data", "event"]),
            (json!({"event": "a\nb", "data": {}}), &["event"]),
            (json!({"event": "x", "data": {"userId": 5}}), &["data.userId"]),
            (json!({"event": "x", "data": {"anonymous_id": ""}}), &["data.anonymous_id"]),
            (json!({"event": "x", "data": {"a": "b".repeat(40_000)}}), &["data"]),
        ] {
            let mut found = read(value).unwrap_err();
            found.sort();
            assert_eq!(found, fields);
        }
    }
}
