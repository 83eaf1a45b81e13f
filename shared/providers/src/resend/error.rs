//! Maps the mail service's responses to outcomes.

use http_client::HttpResponse;
use jiff::Timestamp;
use serde::Deserialize;

use crate::Outcome;
use crate::http::{by_status, describe};

#[derive(Deserialize)]
struct Sent {
    id: String,
}

#[derive(Default, Deserialize)]
struct Problem {
    #[serde(default)]
    name: String,
    #[serde(default)]
    message: String,
}

/// Returns the outcome of a response. `key` is the idempotency key that was sent.
pub fn outcome(answer: &HttpResponse, key: &str, now: Timestamp) -> Outcome {
    if answer.status.is_success() {
        return Outcome::Accepted(answer.json::<Sent>().map_or_else(|| key.to_owned(), |sent| sent.id));
    }
    let Some(problem) = answer.json::<Problem>().filter(|p| !p.name.is_empty()) else {
        return by_status(answer, answer.text(), now);
    };
    let text = format!("{}: {}", problem.name, problem.message);
    let why = describe(answer.status, &text);
    match problem.name.as_str() {
        // The service accepted an earlier attempt with this key, which was rendered slightly differently.
        "invalid_idempotent_request" => Outcome::Accepted(key.to_owned()),
        // An earlier attempt is still in progress.
        "concurrent_idempotent_requests" => Outcome::unavailable(why),
        "missing_api_key"
        | "restricted_api_key"
        | "invalid_api_key"
        | "invalid_access"
        | "invalid_from_address"
        | "invalid_region"
        | "not_found"
        | "method_not_allowed" => Outcome::Misconfigured(why),
        "rate_limit_exceeded" | "daily_quota_exceeded" | "monthly_quota_exceeded" => {
            Outcome::Throttled { after: answer.retry_after(now), why }
        }
        _ => by_status(answer, text, now),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};
    use serde_json::json;

    use super::*;

    fn read(status: u16, body: &str) -> Outcome {
        let status = StatusCode::from_u16(status).unwrap();
        let answer = HttpResponse {
            status,
            headers: HeaderMap::new(),
            body: Bytes::copy_from_slice(body.as_bytes()),
            complete: true,
        };
        outcome(&answer, "key", Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn vendor_responses_map_to_outcomes() {
        for (status, name, outcome) in [
            (400, "invalid_idempotency_key", "rejected"),
            (400, "validation_error", "rejected"),
            (401, "missing_api_key", "misconfigured"),
            (401, "restricted_api_key", "misconfigured"),
            (403, "invalid_api_key", "misconfigured"),
            (403, "validation_error", "misconfigured"),
            (404, "not_found", "misconfigured"),
            (405, "method_not_allowed", "misconfigured"),
            (409, "invalid_idempotent_request", "accepted"),
            (409, "concurrent_idempotent_requests", "unavailable"),
            (422, "invalid_from_address", "misconfigured"),
            (422, "invalid_parameter", "rejected"),
            (422, "missing_required_field", "rejected"),
            (429, "rate_limit_exceeded", "throttled"),
            (429, "daily_quota_exceeded", "throttled"),
            (451, "security_error", "rejected"),
            (500, "application_error", "unavailable"),
            (500, "internal_server_error", "unavailable"),
        ] {
            let body = json!({ "statusCode": status, "name": name, "message": "words" }).to_string();
            assert_eq!(read(status, &body).name(), outcome, "{status} {name}");
        }
    }

    #[test]
    fn ids_and_texts_are_taken_from_the_provider() {
        assert_eq!(read(200, r#"{"id":"49a3"}"#), Outcome::Accepted("49a3".to_owned()));
        assert_eq!(read(200, "not JSON"), Outcome::Accepted("key".to_owned()));
        let text = r#"{"name":"invalid_parameter","message":"The `to` field"}"#;
        assert_eq!(read(422, text), Outcome::Rejected("422 invalid_parameter: The `to` field".to_owned()));
        assert_eq!(read(502, "<html>"), Outcome::unavailable("502 <html>"));
    }
}
