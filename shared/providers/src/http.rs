//! Maps failed HTTP calls and plain statuses to outcomes, for all providers that are called over HTTP.

use std::time::Duration;

use http::StatusCode;
use http_client::{CallError, HttpResponse};
use jiff::Timestamp;

use super::Outcome;

/// Maximum characters of a response that are displayed.
const MAX_TEXT_CHARS: usize = 300;

/// Returns the outcome of a call without a response, to a URL from the settings or the vendor's own.
pub fn unanswered(error: CallError) -> Outcome {
    match error {
        CallError::Refused(why) | CallError::Tls(why) => Outcome::Misconfigured(why),
        CallError::Unreachable(why) => Outcome::unavailable(why),
        CallError::Unanswered(why) => Outcome::Ambiguous(why),
    }
}

/// Returns the outcome that a status alone implies, for responses without a more specific error. Not for successes.
pub fn by_status(answer: &HttpResponse, text: String, now: Timestamp) -> Outcome {
    let after = answer.retry_after(now);
    let why = describe(answer.status, &text);
    match answer.status {
        StatusCode::TOO_MANY_REQUESTS => Outcome::Throttled { after, why },
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => Outcome::Unavailable { after, why },
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            Outcome::Misconfigured(why)
        }
        // Nothing is there, or it has moved: the base URL is wrong.
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Outcome::Misconfigured(why),
        status if status.is_redirection() => Outcome::Misconfigured(why),
        // The call reached the provider, but whether the server behind its gateway processed it is unknown.
        StatusCode::GATEWAY_TIMEOUT => Outcome::Ambiguous(why),
        status if status.is_server_error() => Outcome::Unavailable { after, why },
        _ => Outcome::Rejected(why),
    }
}

/// Returns the status and the text, sanitized for display.
pub fn describe(status: StatusCode, text: &str) -> String {
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_TEXT_CHARS).collect();
    let text = if text.is_empty() { status.canonical_reason().unwrap_or("no text").to_owned() } else { text };
    format!("{} {text}", status.as_u16())
}

/// Returns the requested delay, or `least` if it is shorter or missing.
pub fn at_least(after: Option<Duration>, least: Duration) -> Option<Duration> {
    Some(after.map_or(least, |after| after.max(least)))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;

    #[test]
    fn statuses_map_to_outcomes() {
        for (status, name) in [
            (300, "misconfigured"),
            (302, "misconfigured"),
            (400, "rejected"),
            (401, "misconfigured"),
            (403, "misconfigured"),
            (404, "misconfigured"),
            (408, "unavailable"),
            (413, "rejected"),
            (422, "rejected"),
            (429, "throttled"),
            (500, "unavailable"),
            (502, "unavailable"),
            (503, "unavailable"),
            (504, "ambiguous"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let answer = HttpResponse { status, headers: HeaderMap::new(), body: Bytes::new(), complete: true };
            assert_eq!(by_status(&answer, String::new(), Timestamp::UNIX_EPOCH).name(), name, "{status}");
        }
    }

    #[test]
    fn text_is_on_one_line_and_truncated() {
        assert_eq!(describe(StatusCode::BAD_REQUEST, " a\r\n b "), "400 a b");
        assert_eq!(describe(StatusCode::BAD_REQUEST, ""), "400 Bad Request");
        assert_eq!(describe(StatusCode::OK, &"x".repeat(5_000)).len(), 304);
    }
}
