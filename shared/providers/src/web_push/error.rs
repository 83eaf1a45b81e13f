//! Maps push services' responses to outcomes. Each browser names its own push service, so a response concerns only that browser: even if a
//! service refuses our keys, the settings are not marked as invalid.

use http::StatusCode;
use http_client::{CallError, HttpResponse};
use jiff::Timestamp;

use crate::http::{by_status, describe};
use crate::{Outcome, TOO_LARGE};

/// Returns the outcome of a response. `id` is the accepted push's ID if the response names no location.
pub fn outcome(answer: &HttpResponse, id: &str, now: Timestamp) -> Outcome {
    let why = describe(answer.status, &answer.text());
    match answer.status {
        status if status.is_success() => Outcome::Accepted(answer.header("location").unwrap_or(id).to_owned()),
        StatusCode::NOT_FOUND | StatusCode::GONE => Outcome::Gone(why),
        StatusCode::PAYLOAD_TOO_LARGE => Outcome::Rejected(format!("{TOO_LARGE}: {why}")),
        _ => match by_status(answer, answer.text(), now) {
            Outcome::Misconfigured(why) => Outcome::Rejected(why),
            other => other,
        },
    }
}

pub fn unanswered(error: CallError) -> Outcome {
    match error {
        CallError::Refused(why) => Outcome::Rejected(why),
        CallError::Tls(why) | CallError::Unreachable(why) => Outcome::unavailable(why),
        CallError::Unanswered(why) => Outcome::Ambiguous(why),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;

    #[test]
    fn statuses_map_to_outcomes() {
        for (status, name) in [
            (200, "accepted"),
            (201, "accepted"),
            (202, "accepted"),
            (307, "rejected"),
            (400, "rejected"),
            (401, "rejected"),
            (403, "rejected"),
            (404, "gone"),
            (410, "gone"),
            (413, "rejected"),
            (429, "throttled"),
            (500, "unavailable"),
            (503, "unavailable"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let answer = HttpResponse { status, headers: HeaderMap::new(), body: Bytes::new(), complete: true };
            assert_eq!(outcome(&answer, "id", Timestamp::UNIX_EPOCH).name(), name, "{status}");
        }
    }
}
