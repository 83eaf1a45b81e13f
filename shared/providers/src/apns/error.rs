//! Maps Apple's responses to outcomes, by the reasons in its documentation (“Handling notification responses from APNs”).

use std::time::Duration;

use http_client::HttpResponse;
use jiff::Timestamp;
use serde::Deserialize;

use crate::http::{at_least, by_status, describe};
use crate::{Outcome, TOO_LARGE};

/// Minimum interval between token updates that the vendor allows a team.
const TOKEN_UPDATES: Duration = Duration::from_mins(20);

#[derive(Deserialize)]
struct Problem {
    reason: String,
}

pub fn says_expired(answer: &HttpResponse) -> bool {
    answer.json::<Problem>().is_some_and(|problem| problem.reason == "ExpiredProviderToken")
}

/// Returns the outcome of a response. `id` is the ID that was sent.
pub fn outcome(answer: &HttpResponse, id: &str, now: Timestamp) -> Outcome {
    if answer.status.is_success() {
        return Outcome::Accepted(answer.header("apns-id").unwrap_or(id).to_owned());
    }
    let Some(Problem { reason }) = answer.json::<Problem>() else { return by_status(answer, answer.text(), now) };
    let (why, after) = (describe(answer.status, &reason), answer.retry_after(now));
    match reason.as_str() {
        "BadDeviceToken" | "MissingDeviceToken" | "ExpiredToken" | "Unregistered" => Outcome::Gone(why),
        "PayloadTooLarge" => Outcome::Rejected(format!("{TOO_LARGE}: {why}")),
        // Concerns only this message or device.
        "BadCollapseId"
        | "BadExpirationDate"
        | "BadMessageId"
        | "BadPriority"
        | "DeviceTokenNotForTopic"
        | "DuplicateHeaders"
        | "InvalidPushType"
        | "PayloadEmpty" => Outcome::Rejected(why),
        // Concerns the key, the team, the app or the base URL: every call fails.
        "BadTopic"
        | "MissingTopic"
        | "TopicDisallowed"
        | "BadCertificate"
        | "BadCertificateEnvironment"
        | "Forbidden"
        | "InvalidProviderToken"
        | "MissingProviderToken"
        | "UnrelatedKeyIdInToken"
        | "BadEnvironmentKeyIdInToken"
        | "BadPath"
        | "MethodNotAllowed" => Outcome::Misconfigured(why),
        "TooManyProviderTokenUpdates" => Outcome::Throttled { after: at_least(after, TOKEN_UPDATES), why },
        "TooManyRequests" => Outcome::Throttled { after, why },
        // The next attempt uses a new token.
        "ExpiredProviderToken" | "IdleTimeout" | "InternalServerError" | "ServiceUnavailable" | "Shutdown" => {
            Outcome::Unavailable { after, why }
        }
        _ => by_status(answer, reason, now),
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
    fn documented_reasons_map_to_outcomes() {
        for (status, reason, name) in [
            (400, "BadCollapseId", "rejected"),
            (400, "BadDeviceToken", "gone"),
            (400, "BadExpirationDate", "rejected"),
            (400, "BadMessageId", "rejected"),
            (400, "BadPriority", "rejected"),
            (400, "BadTopic", "misconfigured"),
            (400, "DeviceTokenNotForTopic", "rejected"),
            (400, "DuplicateHeaders", "rejected"),
            (400, "IdleTimeout", "unavailable"),
            (400, "InvalidPushType", "rejected"),
            (400, "MissingDeviceToken", "gone"),
            (400, "MissingTopic", "misconfigured"),
            (400, "PayloadEmpty", "rejected"),
            (400, "TopicDisallowed", "misconfigured"),
            (403, "BadCertificate", "misconfigured"),
            (403, "BadCertificateEnvironment", "misconfigured"),
            (403, "ExpiredProviderToken", "unavailable"),
            (403, "Forbidden", "misconfigured"),
            (403, "InvalidProviderToken", "misconfigured"),
            (403, "MissingProviderToken", "misconfigured"),
            (403, "UnrelatedKeyIdInToken", "misconfigured"),
            (403, "BadEnvironmentKeyIdInToken", "misconfigured"),
            (404, "BadPath", "misconfigured"),
            (405, "MethodNotAllowed", "misconfigured"),
            (410, "ExpiredToken", "gone"),
            (410, "Unregistered", "gone"),
            (413, "PayloadTooLarge", "rejected"),
            (429, "TooManyProviderTokenUpdates", "throttled"),
            (429, "TooManyRequests", "throttled"),
            (500, "InternalServerError", "unavailable"),
            (503, "ServiceUnavailable", "unavailable"),
            (503, "Shutdown", "unavailable"),
            (400, "SomethingNew", "rejected"),
            (503, "SomethingNew", "unavailable"),
        ] {
            let found = outcome(&answer(status, &json!({ "reason": reason })), "id", Timestamp::UNIX_EPOCH);
            assert_eq!(found.name(), name, "{status} {reason}");
            assert!(found.text().ends_with(reason), "{found:?}");
        }
    }
}
