//! Maps the gateway's responses to outcomes.

use http_client::HttpResponse;
use jiff::Timestamp;
use serde::Deserialize;

use crate::http::{by_status, describe};
use crate::{Outcome, TOO_LARGE};

#[derive(Deserialize)]
struct Sent {
    name: String,
}

#[derive(Deserialize)]
struct Problem {
    error: RpcStatus,
}

#[derive(Deserialize)]
struct RpcStatus {
    #[serde(default)]
    status: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Vec<Detail>,
}

#[derive(Deserialize)]
struct Detail {
    #[serde(default, rename = "errorCode")]
    error_code: String,
}

impl RpcStatus {
    /// Returns the FCM-specific error code, or else the general status.
    fn code(&self) -> &str {
        self.details.iter().map(|d| d.error_code.as_str()).find(|c| !c.is_empty()).unwrap_or(&self.status)
    }
}

fn problem(answer: &HttpResponse) -> Option<RpcStatus> {
    answer.json::<Problem>().map(|p| p.error)
}

/// Returns the error text of a response, sanitized for display.
pub fn error_text(answer: &HttpResponse) -> String {
    match problem(answer) {
        Some(problem) => describe(answer.status, &format!("{}: {}", problem.code(), problem.message)),
        None => describe(answer.status, &answer.text()),
    }
}

/// Whether a 401 concerns the APNs credentials uploaded to the gateway, not our own token.
pub fn is_about_apns_credentials(answer: &HttpResponse) -> bool {
    problem(answer).is_some_and(|p| p.code() == "THIRD_PARTY_AUTH_ERROR")
}

/// Returns the outcome of an HTTP v1 response.
pub fn v1(answer: &HttpResponse, now: Timestamp) -> Outcome {
    if answer.status.is_success() {
        let id = answer.json::<Sent>().map(|sent| sent.name).unwrap_or_default();
        return Outcome::Accepted(id.rsplit('/').next().filter(|id| !id.is_empty()).unwrap_or("unknown").to_owned());
    }
    let Some(problem) = problem(answer) else { return by_status(answer, answer.text(), now) };
    let why = error_text(answer);
    let after = answer.retry_after(now);
    match problem.code() {
        "UNREGISTERED" => Outcome::Gone(why),
        "INVALID_ARGUMENT" if problem.message.contains("registration token") => Outcome::Gone(why),
        "INVALID_ARGUMENT" if problem.message.contains("too big") => Outcome::Rejected(format!("{TOO_LARGE}: {why}")),
        "INVALID_ARGUMENT" | "SENDER_ID_MISMATCH" => Outcome::Rejected(why),
        "QUOTA_EXCEEDED" | "RESOURCE_EXHAUSTED" => Outcome::Throttled { after, why },
        "UNAVAILABLE" | "INTERNAL" => Outcome::Unavailable { after, why },
        "THIRD_PARTY_AUTH_ERROR" | "UNAUTHENTICATED" | "PERMISSION_DENIED" | "NOT_FOUND" => Outcome::Misconfigured(why),
        code => by_status(answer, format!("{code}: {}", problem.message), now),
    }
}

#[derive(Deserialize)]
struct Results {
    results: Vec<Result>,
}

#[derive(Deserialize)]
struct Result {
    message_id: Option<String>,
    error: Option<String>,
}

/// Returns the outcome of a legacy response: a 200 may contain a failure.
pub fn legacy(answer: &HttpResponse, now: Timestamp) -> Outcome {
    if !answer.status.is_success() {
        return by_status(answer, answer.text(), now);
    }
    let result = answer.json::<Results>().and_then(|r| r.results.into_iter().next());
    let Some(error) = result.as_ref().and_then(|r| r.error.clone()) else {
        return Outcome::Accepted(result.and_then(|r| r.message_id).unwrap_or_else(|| "unknown".to_owned()));
    };
    let after = answer.retry_after(now);
    match error.as_str() {
        "NotRegistered" | "InvalidRegistration" => Outcome::Gone(error),
        "MessageTooBig" => Outcome::Rejected(format!("{TOO_LARGE}: {error}")),
        "DeviceMessageRateExceeded" | "TopicsMessageRateExceeded" => Outcome::Throttled { after, why: error },
        "Unavailable" | "InternalServerError" => Outcome::Unavailable { after, why: error },
        "InvalidApnsCredential" => Outcome::Misconfigured(error),
        _ => Outcome::Rejected(error),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};
    use serde_json::json;

    use super::*;

    fn answer(status: u16, body: &serde_json::Value) -> HttpResponse {
        let status = StatusCode::from_u16(status).unwrap();
        HttpResponse { status, headers: HeaderMap::new(), body: Bytes::from(body.to_string()), complete: true }
    }

    #[test]
    fn v1_error_codes_map_to_outcomes() {
        for (status, general, code, message, outcome) in [
            (
                400,
                "INVALID_ARGUMENT",
                "INVALID_ARGUMENT",
                "The registration token is not a valid FCM registration token",
                "gone",
            ),
            (400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "Invalid value at 'message'", "rejected"),
            (400, "INVALID_ARGUMENT", "", "Android message is too big", "rejected"),
            (401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR", "", "misconfigured"),
            (401, "UNAUTHENTICATED", "", "", "misconfigured"),
            (403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH", "", "rejected"),
            (403, "PERMISSION_DENIED", "", "", "misconfigured"),
            (404, "NOT_FOUND", "UNREGISTERED", "", "gone"),
            (404, "NOT_FOUND", "", "", "misconfigured"),
            (429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", "", "throttled"),
            (500, "INTERNAL", "INTERNAL", "", "unavailable"),
            (503, "UNAVAILABLE", "UNAVAILABLE", "", "unavailable"),
            (409, "ABORTED", "", "", "rejected"),
        ] {
            let details = if code.is_empty() { json!([]) } else { json!([{ "@type": "x", "errorCode": code }]) };
            let body =
                json!({ "error": { "code": status, "status": general, "message": message, "details": details } });
            let found = v1(&answer(status, &body), Timestamp::UNIX_EPOCH);
            assert_eq!(found.name(), outcome, "{status} {general} {code} {message}");
        }
        let sent = answer(200, &json!({ "name": "projects/shop/messages/0:15" }));
        assert_eq!(v1(&sent, Timestamp::UNIX_EPOCH), Outcome::Accepted("0:15".to_owned()));
    }

    #[test]
    fn legacy_errors_map_to_outcomes() {
        for (error, outcome) in [
            ("NotRegistered", "gone"),
            ("InvalidRegistration", "gone"),
            ("MismatchSenderId", "rejected"),
            ("MessageTooBig", "rejected"),
            ("Unavailable", "unavailable"),
            ("InternalServerError", "unavailable"),
            ("DeviceMessageRateExceeded", "throttled"),
            ("InvalidApnsCredential", "misconfigured"),
        ] {
            let body = json!({ "success": 0, "failure": 1, "results": [{ "error": error }] });
            assert_eq!(legacy(&answer(200, &body), Timestamp::UNIX_EPOCH).name(), outcome, "{error}");
        }
        let sent = answer(200, &json!({ "success": 1, "results": [{ "message_id": "1:2" }] }));
        assert_eq!(legacy(&sent, Timestamp::UNIX_EPOCH), Outcome::Accepted("1:2".to_owned()));
        assert_eq!(legacy(&answer(401, &json!({})), Timestamp::UNIX_EPOCH).name(), "misconfigured");
    }
}
