//! Maps the provider's responses to outcomes. A success may report that no device was reached.

use http_client::HttpResponse;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::http::{by_status, describe};
use crate::{Outcome, TOO_LARGE};

#[derive(Default, Deserialize)]
struct ResponseBody {
    #[serde(default)]
    id: String,
    /// Texts, or lists of unknown devices by the name of the request's field.
    #[serde(default)]
    errors: Value,
}

impl ResponseBody {
    fn text(&self) -> String {
        match &self.errors {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Array(all) => all.iter().map(text_of).collect::<Vec<_>>().join("; "),
            // Only the names of the lists: their elements are tokens.
            Value::Object(lists) => lists.keys().cloned().collect::<Vec<_>>().join(", "),
            other => other.to_string(),
        }
    }

    fn names_invalid_devices(&self) -> bool {
        self.errors.as_object().is_some_and(|lists| lists.keys().any(|name| name.starts_with("invalid_")))
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => fields.values().filter_map(Value::as_str).collect::<Vec<_>>().join(": "),
        other => other.to_string(),
    }
}

/// Texts that concern the app or its key, whatever the status.
const ABOUT_THE_APP: [&str; 5] = ["app_id", "app not found", "authorization", "api key", "access denied"];

pub fn outcome(answer: &HttpResponse, now: Timestamp) -> Outcome {
    let response = answer.json::<ResponseBody>().unwrap_or_default();
    let text = response.text();
    let why = describe(answer.status, &text);
    if answer.status.is_success() {
        return match response.id.as_str() {
            // The call was for one device, so that is the invalid one.
            _ if response.names_invalid_devices() => Outcome::Gone(why),
            "" if text.to_lowercase().contains("not subscribed") => Outcome::Gone(why),
            "" if answer.complete && !text.is_empty() => Outcome::Rejected(why),
            "" => Outcome::Accepted("unknown".to_owned()),
            id => Outcome::Accepted(id.to_owned()),
        };
    }
    let lower = text.to_lowercase();
    match answer.status.as_u16() {
        400 if ABOUT_THE_APP.iter().any(|about| lower.contains(about)) => Outcome::Misconfigured(why),
        400 if response.names_invalid_devices() || lower.contains("not subscribed") => Outcome::Gone(why),
        400 | 413 if lower.contains("too large") || lower.contains("too long") => {
            Outcome::Rejected(format!("{TOO_LARGE}: {why}"))
        }
        _ => by_status(answer, if text.is_empty() { answer.text() } else { text }, now),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};
    use serde_json::json;

    use super::*;

    fn read(status: u16, body: &Value) -> Outcome {
        let status = StatusCode::from_u16(status).unwrap();
        let answer =
            HttpResponse { status, headers: HeaderMap::new(), body: Bytes::from(body.to_string()), complete: true };
        outcome(&answer, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn responses_map_to_outcomes() {
        for (status, body, outcome) in [
            (200, json!({ "id": "n1", "external_id": null }), "accepted"),
            (200, json!({ "id": "", "errors": ["All included players are not subscribed"] }), "gone"),
            (200, json!({ "id": "n1", "errors": { "invalid_player_ids": ["x"] } }), "gone"),
            (200, json!({ "id": "", "errors": ["Something else"] }), "rejected"),
            (
                400,
                json!({ "errors": ["app_id not found. You may be missing a Content-Type header."] }),
                "misconfigured",
            ),
            (400, json!({ "errors": ["Please include a case-sensitive header of Authorization"] }), "misconfigured"),
            (403, json!({ "errors": ["Access denied."] }), "misconfigured"),
            (401, json!({}), "misconfigured"),
            (400, json!({ "errors": ["Message Notifications must have English content"] }), "rejected"),
            (400, json!({ "errors": [{ "code": "x", "title": "Payload too large" }] }), "rejected"),
            (404, json!({}), "misconfigured"),
            (429, json!({ "errors": ["API rate limit exceeded"] }), "throttled"),
            (500, json!({}), "unavailable"),
            (504, json!({}), "ambiguous"),
        ] {
            assert_eq!(read(status, &body).name(), outcome, "{status} {body}");
        }
        let gone = read(200, &json!({ "id": "", "errors": { "invalid_ios_tokens": ["secret"] } }));
        assert_eq!(gone.text(), "200 invalid_ios_tokens", "the text contains no token");
    }
}
