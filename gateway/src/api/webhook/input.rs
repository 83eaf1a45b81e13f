//! What a webhook says.

use bytes::Bytes;
use serde_json::{Map, Value};
use shared::send::DeliveryState;
use uuid::Uuid;

use crate::error::{ApiError, Problem};
use crate::fields::{Fields, Text};
use crate::ingest::properties;

const KIND: Text = Text::line(200);
const ID: Text = Text::line(200);
/// About a message or a user; unlike the others of its family it is kept as an event, too.
const UNSUBSCRIBED: &str = "message.unsubscribed";

/// A notification. Of one about a message the message is known, of any other perhaps a user.
#[derive(Debug, PartialEq)]
pub struct Notification {
    pub kind: String,
    /// A JSON object.
    pub data: Bytes,
    pub message: Option<Uuid>,
    pub user_id: Option<String>,
    pub anonymous_id: Option<String>,
}

/// Reads `{ event, data }`. Whatever else its sender puts beside them is ignored: the sender is another program.
pub fn notification(mut body: Map<String, Value>) -> Result<Notification, ApiError> {
    body.retain(|name, _| name == "event" || name == "data");
    let mut fields = Fields::of(&body);
    let kind = fields.required_text("event", &KIND).to_owned();
    let tells_of_message = DeliveryState::told_by(&kind).is_some();
    let (mut message, mut user_id, mut anonymous_id) = (None, None, None);
    let mut problems = Vec::new();
    let data = fields.element("data").filter(|d| !d.value().is_null());
    let text = data.as_ref().map_or_else(|| "{}".to_owned(), |d| d.value().to_string());
    match data.as_ref().map(|d| (d, d.value().as_object())) {
        Some((_, Some(data))) if tells_of_message => message = message_id(data, &mut problems),
        Some((_, Some(data))) => {
            if kind == UNSUBSCRIBED && data.get("messageId").is_some_and(|id| !id.is_null()) {
                message = message_id(data, &mut problems);
            }
            user_id = id(data, ["userId", "user_id"], &mut problems);
            anonymous_id = id(data, ["anonymousId", "anonymous_id"], &mut problems);
        }
        Some((data, None)) => data.problem("must be an object"),
        None if tells_of_message => message = message_id(&Map::new(), &mut problems),
        None => {}
    }
    let is_object = data.as_ref().is_none_or(|d| d.value().is_object());
    if let Some(why) = properties::refuses(&text).filter(|_| is_object && problems.is_empty()) {
        problems.push(Problem::new("data", why));
    }
    for problem in problems {
        fields.problem(&problem.field, problem.message);
    }
    fields.finish()?;
    Ok(Notification { kind, data: text.into(), message, user_id, anonymous_id })
}

fn message_id(data: &Map<String, Value>, problems: &mut Vec<Problem>) -> Option<Uuid> {
    let id = data.get("messageId").and_then(Value::as_str).and_then(|text| Uuid::try_parse(text).ok());
    if id.is_none() {
        problems.push(Problem::new("data.messageId", "must be the id of a message"));
    }
    id
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

    fn read(value: Value) -> Result<Notification, Vec<String>> {
        let read = notification(value.as_object().cloned().unwrap());
        read.map_err(|e| e.details().iter().map(|p| p.field.clone()).collect())
    }

    #[test]
    fn a_message_is_named_where_the_kind_is_about_one() {
        let id = Uuid::from_u128(7);
        let told = read(json!({"event": "message.opened", "data": {"messageId": id, "userId": "u"}, "id": 5})).unwrap();
        assert_eq!((told.message, told.user_id), (Some(id), None));
        let other = read(json!({"event": "payment.failed", "data": {"messageId": 5, "user_id": "u"}})).unwrap();
        assert_eq!((other.message, other.user_id.as_deref()), (None, Some("u")));
        let bare = read(json!({"event": "ping"})).unwrap();
        assert_eq!((&bare.data[..], bare.user_id), (&b"{}"[..], None));
    }

    #[test]
    fn wrong_fields_are_named() {
        for (value, fields) in [
            (json!({}), &["event"][..]),
            (json!({"event": "", "data": []}), &["data", "event"]),
            (json!({"event": "a\nb", "data": {}}), &["event"]),
            (json!({"event": "message.opened"}), &["data.messageId"]),
            (json!({"event": "message.opened", "data": {"messageId": "x"}}), &["data.messageId"]),
            (json!({"event": "x", "data": {"userId": 5}}), &["data.userId"]),
            (json!({"event": "message.unsubscribed", "data": {"messageId": 5}}), &["data.messageId"]),
            (json!({"event": "x", "data": {"anonymous_id": ""}}), &["data.anonymous_id"]),
            (json!({"event": "x", "data": {"a": "b".repeat(40_000)}}), &["data"]),
        ] {
            let mut found = read(value).unwrap_err();
            found.sort();
            assert_eq!(found, fields);
        }
    }
}
