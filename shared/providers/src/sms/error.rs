//! Maps the SMS service's responses to outcomes.

use http_client::HttpResponse;
use jiff::Timestamp;
use serde::Deserialize;

use crate::http::{by_status, describe};
use crate::{Outcome, TOO_LARGE};

#[derive(Deserialize)]
struct Sent {
    sid: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    error_code: Option<u32>,
    #[serde(default)]
    error_message: Option<String>,
}

#[derive(Deserialize)]
struct Problem {
    code: u32,
    #[serde(default)]
    message: String,
}

/// Returns the outcome of a response. `key` serves as the ID if the response contains none.
pub fn outcome(answer: &HttpResponse, key: &str, now: Timestamp) -> Outcome {
    if answer.status.is_success() {
        return match answer.json::<Sent>() {
            // Accepted, but failed at once.
            Some(Sent { status, error_code: Some(code), error_message, .. })
                if status == "failed" || status == "undelivered" =>
            {
                by_code(code, answer, &error_message.unwrap_or_default(), now)
            }
            Some(sent) => Outcome::Accepted(sent.sid),
            None => Outcome::Accepted(key.to_owned()),
        };
    }
    match answer.json::<Problem>() {
        Some(Problem { code, message }) => by_code(code, answer, &message, now),
        None => by_status(answer, answer.text(), now),
    }
}

fn by_code(code: u32, answer: &HttpResponse, message: &str, now: Timestamp) -> Outcome {
    let text = format!("{code}: {message}");
    let why = describe(answer.status, &text);
    match code {
        // The account: its credentials, its status, and sender numbers that it does not own.
        20003 | 20005 | 20006 | 20008 | 20403 | 20404 | 21212 | 21601 | 21603 | 21606 | 21659 | 21660 | 21661
        | 30002 | 30034 => Outcome::Misconfigured(why),
        // Rate limits and daily limits.
        14107 | 20429 | 21611 | 30001 | 30022 | 63038 => Outcome::Throttled { after: answer.retry_after(now), why },
        // Network errors and unknown errors.
        20500 | 20503 | 30008 | 30009 | 30017 => Outcome::Unavailable { after: answer.retry_after(now), why },
        // Recipients who opted out, and numbers that no longer exist.
        21610 | 30005 => Outcome::Gone(why),
        21605 | 21617 => Outcome::Rejected(format!("{TOO_LARGE}: {why}")),
        _ if answer.status.is_success() => Outcome::Rejected(why),
        _ => by_status(answer, text, now),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};
    use serde_json::json;

    use super::*;

    fn read(status: u16, body: &serde_json::Value) -> Outcome {
        let status = StatusCode::from_u16(status).unwrap();
        let answer =
            HttpResponse { status, headers: HeaderMap::new(), body: Bytes::from(body.to_string()), complete: true };
        outcome(&answer, "key", Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn vendor_codes_map_to_outcomes() {
        for (status, code, outcome) in [
            (400, 21211, "rejected"),
            (400, 21408, "rejected"),
            (400, 21612, "rejected"),
            (400, 21614, "rejected"),
            (400, 21635, "rejected"),
            (400, 21602, "rejected"),
            (400, 21617, "rejected"),
            (400, 21610, "gone"),
            (400, 21212, "misconfigured"),
            (400, 21606, "misconfigured"),
            (400, 21608, "rejected"),
            (400, 21660, "misconfigured"),
            (401, 20003, "misconfigured"),
            (403, 20005, "misconfigured"),
            (404, 20404, "misconfigured"),
            (429, 20429, "throttled"),
            (400, 21611, "throttled"),
            (429, 63038, "throttled"),
            (500, 20500, "unavailable"),
            (503, 20503, "unavailable"),
            (400, 99999, "rejected"),
            (504, 99999, "ambiguous"),
        ] {
            let body = json!({ "code": code, "message": "words", "more_info": "x", "status": status });
            assert_eq!(read(status, &body).name(), outcome, "{status} {code}");
        }
    }

    #[test]
    fn accepted_sms_has_its_id_unless_it_failed_at_once() {
        let sent =
            json!({ "sid": "SM1", "status": "queued", "num_segments": "1", "error_code": null, "error_message": null });
        assert_eq!(read(201, &sent), Outcome::Accepted("SM1".to_owned()));
        assert_eq!(read(201, &json!([])), Outcome::Accepted("key".to_owned()));
        let failed = json!({ "sid": "SM1", "status": "failed", "error_code": 30006, "error_message": "Landline" });
        assert_eq!(read(201, &failed), Outcome::Rejected("201 30006: Landline".to_owned()));
        assert_eq!(read(502, &json!("<html>")).name(), "unavailable");
    }
}
