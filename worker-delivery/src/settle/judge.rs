//! Maps a provider outcome to a status. Pure.

use std::time::Duration;

use database::jumps::DueBy;
use domain::message::{DeliveryState, Lane};
use jiff::Timestamp;
use store_sending::messages::claim::ClaimedMessage;
use store_sending::messages::settle::{HELD_REASON, Settled};

use super::reschedule;
use providers::{Outcome, TOO_LARGE};

/// Age after which a deferral counts as a provider failure.
const DEFERRAL_COUNTS_AFTER: Duration = Duration::from_hours(6);
/// Maximum characters of a status reason.
const MAX_REASON_CHARS: usize = 500;

/// Inputs of a decision besides the outcome.
#[derive(Clone, Copy, Debug)]
pub struct SettleContext {
    pub due_by: DueBy,
    /// Start of delays, which a clock jump must not lengthen.
    pub delays_from: Timestamp,
    /// Between 0 and 1.
    pub random: f64,
    /// How often a direct or automation message is repeated after calls with an unknown outcome.
    pub unknown_retries: i32,
    /// Retry at once: the settings changed during the call, or the fallback provider takes over.
    pub try_again_now: bool,
    /// The provider deduplicates by message ID, so a repeated call is safe.
    pub is_idempotent: bool,
}

/// Settles with a final status.
pub fn with_status(message: &ClaimedMessage, status: DeliveryState, reason: Option<&str>) -> Settled {
    let reason = reason.map(clean);
    Settled { reason, ..Settled::new(message.project, message.id, message.attempt, status) }
}

pub fn failed(message: &ClaimedMessage, reason: &str) -> Settled {
    with_status(message, DeliveryState::Failed, Some(reason))
}

fn requeue(message: &ClaimedMessage, reason: &str, at: SettleContext, delay: Duration) -> Settled {
    let due_at = Some(at.delays_from.checked_add(delay).unwrap_or(Timestamp::MAX));
    Settled { due_at, ..with_status(message, DeliveryState::Queued, Some(reason)) }
}

/// Whether it is a test send: reported at once, never retried.
pub fn is_test(message: &ClaimedMessage) -> bool {
    message.content.get("test").is_some_and(|test| test == true)
}

/// Returns the recipient of a test send, which replaces the user's own address.
pub fn test_address(message: &ClaimedMessage) -> Option<&str> {
    message.content.get("to").and_then(serde_json::Value::as_str).filter(|_| is_test(message))
}

/// Queues the message again after a provider failure, or fails it after the last one.
fn retry(message: &ClaimedMessage, after: Option<Duration>, why: &str, at: SettleContext) -> Settled {
    let settled = match reschedule::after_failure(message.failures, after, at.random) {
        Some(delay) => requeue(message, &format!("retrying: {why}"), at, delay),
        None => failed(message, &format!("gave_up: {why}")),
    };
    Settled { failures: 1, ..settled }
}

/// A message that was released before a clock jump ages by the clock without it.
fn age(message: &ClaimedMessage, at: SettleContext) -> Duration {
    let DueBy { now, held } = at.due_by;
    let now = if message.released_at <= held { held } else { now };
    let age_ms = now.as_millisecond() - message.released_at.as_millisecond();
    Duration::from_millis(age_ms.max(0).unsigned_abs())
}

/// Returns the status that follows from a provider's outcome.
pub fn judge(message: &ClaimedMessage, outcome: &Outcome, at: SettleContext) -> Settled {
    if is_test(message) && !matches!(outcome, Outcome::Accepted(_)) {
        return failed(message, &format!("{}: {}", outcome.name(), outcome.text()));
    }
    match outcome {
        Outcome::Accepted(id) => {
            let sent = with_status(message, DeliveryState::Sent, None);
            Settled { provider_message_id: Some(clean(id)), ..sent }
        }
        Outcome::Throttled { after, why } | Outcome::Unavailable { after, why } => retry(message, *after, why, at),
        Outcome::Held { after, why } => {
            if age(message, at) > DEFERRAL_COUNTS_AFTER {
                return retry(message, Some(*after), why, at);
            }
            requeue(message, &format!("waiting: {why}"), at, reschedule::while_open(*after, at.random))
        }
        // Waiting for a rate limit is not a failure.
        Outcome::Limited { after, why } => {
            let delay = reschedule::while_limited(*after, message.lane, at.random);
            requeue(message, &limited(why), at, delay)
        }
        Outcome::Rejected(why) if why.starts_with(TOO_LARGE) => Settled { failures: 1, ..failed(message, why) },
        Outcome::Rejected(why) => Settled { failures: 1, ..failed(message, &format!("rejected: {why}")) },
        Outcome::Gone(why) => Settled { failures: 1, ..failed(message, &format!("gone: {why}")) },
        Outcome::Misconfigured(why) => {
            let delay = if at.try_again_now { Duration::ZERO } else { reschedule::while_held(at.random) };
            requeue(message, &format!("{HELD_REASON}: {why}"), at, delay)
        }
        Outcome::Ambiguous(why) if at.is_idempotent => retry(message, None, why, at),
        Outcome::Ambiguous(why) => {
            let reason = format!("outcome_unknown: {why}");
            let settled = match reschedule::after_unknown(message.ambiguous + 1, unknown_retries(message.lane, at)) {
                Some(delay) => requeue(message, &reason, at, delay),
                None => failed(message, &reason),
            };
            Settled { ambiguous: 1, ..settled }
        }
    }
}

/// Status reason of a message that waits for its account's rate limit.
pub fn limited(why: &str) -> String {
    format!("rate_limited: {why}")
}

/// Queues a message again that was begun and not called. If another worker took it over meanwhile, this is not written.
pub fn not_called(message: &ClaimedMessage, at: SettleContext) -> Settled {
    requeue(message, "lease_ended", at, Duration::ZERO)
}

/// Defers by `wait`, until quiet hours end, with jitter.
pub fn defer_for_quiet_hours(message: &ClaimedMessage, until: Timestamp, wait: Duration, at: SettleContext) -> Settled {
    requeue(message, &format!("quiet_hours: until {until}"), at, reschedule::while_quiet(wait, at.random))
}

/// Whether the message may be sent after its earlier calls with an unknown outcome. Campaign messages are not repeated after an
/// unknown outcome.
pub fn may_be_sent(message: &ClaimedMessage, at: SettleContext) -> bool {
    message.ambiguous <= unknown_retries(message.lane, at)
}

fn unknown_retries(lane: Lane, at: SettleContext) -> i32 {
    match lane {
        Lane::Direct | Lane::Automation => at.unknown_retries,
        Lane::Campaign => 0,
    }
}

/// Retries a direct message whose user may not be recorded yet; fails others.
pub fn user_unknown(message: &ClaimedMessage, at: SettleContext) -> Settled {
    const REASON: &str = "user_not_found";
    let delay = match message.lane {
        Lane::Direct => reschedule::while_user_unknown(age(message, at), message.attempt, at.random),
        Lane::Automation | Lane::Campaign => None,
    };
    delay.map_or_else(|| failed(message, REASON), |delay| requeue(message, REASON, at, delay))
}

/// Suppresses a message to a user without an address. A new direct message is deferred: the address may be recorded in a moment.
pub fn address_missing(message: &ClaimedMessage, at: SettleContext) -> Settled {
    no_destination(message, "no_address", at)
}

/// Like [`address_missing`], for a user without a device.
pub fn token_missing(message: &ClaimedMessage, at: SettleContext) -> Settled {
    no_destination(message, "no_token", at)
}

fn no_destination(message: &ClaimedMessage, reason: &str, at: SettleContext) -> Settled {
    if message.lane == Lane::Direct && age(message, at) < INTAKE_DELAY {
        return requeue(message, reason, at, Duration::from_secs(1));
    }
    with_status(message, DeliveryState::Suppressed, Some(reason))
}

/// By then, items accepted before the message have normally been applied.
const INTAKE_DELAY: Duration = Duration::from_secs(4);

/// Removes control characters (PostgreSQL rejects NUL) and truncates.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_REASON_CHARS).collect()
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use domain::message::Channel;
    use kernel::clock::from_ms;
    use kernel::ids::ProjectId;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn message(lane: Lane, failures: i32, ambiguous: i32) -> ClaimedMessage {
        ClaimedMessage {
            project: ProjectId(Uuid::from_u128(1)),
            id: Uuid::from_u128(2),
            user_id: Uuid::from_u128(3),
            channel: Channel::Email,
            lane,
            sending: None,
            template_id: None,
            subscription_group_id: None,
            content: json!({}),
            data: json!({}),
            attempt: 4,
            failures,
            ambiguous,
            lapsed: false,
            created_at: from_ms(NOW),
            released_at: from_ms(NOW),
            trace: None,
        }
    }

    fn at(now_ms: i64) -> SettleContext {
        SettleContext {
            due_by: from_ms(now_ms).into(),
            delays_from: from_ms(now_ms),
            random: 1.0,
            unknown_retries: 1,
            try_again_now: false,
            is_idempotent: false,
        }
    }

    fn due_in(settled: &Settled) -> Option<i64> {
        settled.due_at.map(|d| (d.as_millisecond() - NOW) / 1_000)
    }

    #[test]
    fn outcome_maps_to_status_reason_and_retry() {
        let why = || "why".to_owned();
        let retry = || Outcome::unavailable(why());
        for (message, outcome, status, reason, due, failures, ambiguous) in [
            (message(Lane::Direct, 0, 0), Outcome::Accepted(why()), "sent", None, None, 0, 0),
            (message(Lane::Direct, 0, 0), retry(), "queued", Some("retrying: why"), Some(15), 1, 0),
            (message(Lane::Direct, 7, 0), retry(), "failed", Some("gave_up: why"), None, 1, 0),
            (message(Lane::Direct, 0, 0), Outcome::Rejected(why()), "failed", Some("rejected: why"), None, 1, 0),
            (message(Lane::Direct, 0, 0), Outcome::Gone(why()), "failed", Some("gone: why"), None, 1, 0),
            (
                message(Lane::Direct, 7, 0),
                Outcome::Misconfigured(why()),
                "queued",
                Some("channel_misconfigured: why"),
                Some(70),
                0,
                0,
            ),
            (
                message(Lane::Automation, 0, 0),
                Outcome::Ambiguous(why()),
                "queued",
                Some("outcome_unknown: why"),
                Some(60),
                0,
                1,
            ),
            (
                message(Lane::Automation, 0, 1),
                Outcome::Ambiguous(why()),
                "failed",
                Some("outcome_unknown: why"),
                None,
                0,
                1,
            ),
            (
                message(Lane::Campaign, 0, 0),
                Outcome::Ambiguous(why()),
                "failed",
                Some("outcome_unknown: why"),
                None,
                0,
                1,
            ),
        ] {
            let settled = judge(&message, &outcome, at(NOW));
            assert_eq!(settled.status.as_str(), status, "{outcome:?}");
            assert_eq!(settled.reason.as_deref(), reason, "{outcome:?}");
            assert_eq!(
                (due_in(&settled), settled.failures, settled.ambiguous),
                (due, failures, ambiguous),
                "{outcome:?}"
            );
            assert_eq!(settled.attempt, 4);
        }
    }

    #[test]
    fn settings_changed_during_the_call_are_retried_at_once() {
        let changed = SettleContext { try_again_now: true, ..at(NOW) };
        let settled = judge(&message(Lane::Direct, 0, 0), &Outcome::Misconfigured(String::new()), changed);
        assert_eq!(due_in(&settled), Some(0));
    }

    #[test]
    fn ambiguous_call_of_idempotent_provider_is_retried() {
        let idempotent = SettleContext { is_idempotent: true, ..at(NOW) };
        let settled = judge(&message(Lane::Campaign, 0, 0), &Outcome::Ambiguous("why".to_owned()), idempotent);
        assert_eq!((settled.status, settled.failures, settled.ambiguous), (DeliveryState::Queued, 1, 0));
        assert_eq!(due_in(&settled), Some(15));
    }

    #[test]
    fn deferral_counts_as_failure_after_six_hours() {
        let held = Outcome::Held { after: Duration::from_secs(8), why: "down".to_owned() };
        let settled = judge(&message(Lane::Campaign, 7, 0), &held, at(NOW));
        assert_eq!((settled.status, settled.failures, due_in(&settled)), (DeliveryState::Queued, 0, Some(18)));
        let late = judge(&message(Lane::Campaign, 7, 0), &held, at(NOW + 7 * 3_600_000));
        assert_eq!((late.status, late.reason.as_deref()), (DeliveryState::Failed, Some("gave_up: down")));
    }

    #[test]
    fn rate_limited_message_never_counts_as_failed() {
        let limited = Outcome::Limited { after: Duration::from_secs(1), why: "2 a second".to_owned() };
        for (lane, due) in [(Lane::Direct, 2), (Lane::Automation, 11), (Lane::Campaign, 11)] {
            let settled = judge(&message(lane, 7, 0), &limited, at(NOW));
            assert_eq!((settled.status, settled.failures, due_in(&settled)), (DeliveryState::Queued, 0, Some(due)));
            assert_eq!(settled.reason.as_deref(), Some("rate_limited: 2 a second"));
            let late = judge(&message(lane, 7, 0), &limited, at(NOW + 48 * 3_600_000));
            assert_eq!((late.status, late.failures), (DeliveryState::Queued, 0));
        }
    }

    #[test]
    fn clock_jump_ages_no_message() {
        let hour = 3_600_000;
        let due_by = DueBy { now: from_ms(NOW + hour + 2_000), held: from_ms(NOW + 2_000) };
        let jumped = SettleContext { due_by, delays_from: due_by.held, ..at(NOW) };
        for released_ms in [NOW, NOW + hour] {
            let message = ClaimedMessage { released_at: from_ms(released_ms), ..message(Lane::Direct, 0, 0) };
            assert_eq!(user_unknown(&message, jumped).status, DeliveryState::Queued);
            assert_eq!(address_missing(&message, jumped).status, DeliveryState::Queued);
            let due = due_in(&address_missing(&message, jumped));
            assert_eq!(due, Some(3), "a second after the clock without the jump");
        }
    }

    #[test]
    fn campaign_message_ages_from_its_release() {
        let held = Outcome::Held { after: Duration::from_secs(8), why: "down".to_owned() };
        let hours = |hours: i64| NOW + hours * 3_600_000;
        let message = ClaimedMessage { released_at: from_ms(hours(12)), ..message(Lane::Campaign, 0, 0) };
        assert_eq!(judge(&message, &held, at(hours(12))).failures, 0);
        assert_eq!(judge(&message, &held, at(hours(17))).failures, 0);
        assert_eq!(judge(&message, &held, at(hours(19))).failures, 1);
    }

    #[test]
    fn test_send_is_never_retried() {
        let test = ClaimedMessage { content: json!({ "test": true }), ..message(Lane::Direct, 0, 0) };
        for outcome in [
            Outcome::unavailable("down"),
            Outcome::Misconfigured("401".to_owned()),
            Outcome::Ambiguous("silence".to_owned()),
        ] {
            let settled = judge(&test, &outcome, at(NOW));
            assert_eq!((settled.status, settled.due_at), (DeliveryState::Failed, None));
            assert_eq!(settled.reason, Some(format!("{}: {}", outcome.name(), outcome.text())));
        }
        assert_eq!(judge(&test, &Outcome::Accepted("1".to_owned()), at(NOW)).status, DeliveryState::Sent);
    }

    #[test]
    fn ambiguous_calls_are_limited_by_lane() {
        assert!(may_be_sent(&message(Lane::Direct, 0, 1), at(NOW)));
        assert!(!may_be_sent(&message(Lane::Direct, 0, 2), at(NOW)));
        assert!(may_be_sent(&message(Lane::Campaign, 0, 0), at(NOW)));
        assert!(!may_be_sent(&message(Lane::Campaign, 0, 1), at(NOW)));
    }

    #[test]
    fn only_direct_message_waits_for_its_user() {
        assert_eq!(user_unknown(&message(Lane::Direct, 0, 0), at(NOW)).status, DeliveryState::Queued);
        let late = user_unknown(&message(Lane::Direct, 0, 0), at(NOW + 46_000));
        assert_eq!((late.status, late.reason.as_deref()), (DeliveryState::Failed, Some("user_not_found")));
        assert_eq!(user_unknown(&message(Lane::Automation, 0, 0), at(NOW)).status, DeliveryState::Failed);
    }

    #[test]
    fn new_direct_message_waits_for_an_address() {
        let status = |lane, after| address_missing(&message(lane, 0, 0), at(NOW + after)).status;
        assert_eq!(status(Lane::Direct, 0), DeliveryState::Queued);
        assert_eq!(status(Lane::Direct, 5_000), DeliveryState::Suppressed);
        assert_eq!(status(Lane::Automation, 0), DeliveryState::Suppressed);
    }

    #[test]
    fn reason_is_cleaned_and_truncated() {
        let settled = failed(&message(Lane::Direct, 0, 0), &format!("a\0b\r\n{}", "x".repeat(1_000)));
        let reason = settled.reason.unwrap();
        assert!(reason.starts_with("a b  x") && reason.chars().count() == MAX_REASON_CHARS);
    }
}
