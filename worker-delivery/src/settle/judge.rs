//! From an outcome to what the ledger says. Pure.

use std::time::Duration;

use jiff::Timestamp;
use shared::send::{DeliveryState, Lane};
use shared::store::messages::claim::Claimed;
use shared::store::messages::settle::{HELD, Settled};

use super::reschedule;
use crate::provider::Outcome;

/// Characters of a reason that are kept.
const REASON_CHARS: usize = 500;

/// What a judgement depends on beside the outcome.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    pub now: Timestamp,
    /// Between 0 and 1.
    pub random: f64,
    /// How often a direct or automation message is repeated after a call whose outcome was never learned.
    pub unknown_retries: i32,
    /// The channel's settings were changed during the call.
    pub settings_changed: bool,
}

/// The claim's end with an outcome known.
pub fn known(message: &Claimed, status: DeliveryState, reason: Option<&str>) -> Settled {
    Settled {
        project: message.project,
        id: message.id,
        attempt: message.attempt,
        status,
        reason: reason.map(clean),
        due_at: None,
        failures: 0,
        ambiguous: 0,
        user_id: None,
        subject: None,
        provider: None,
        provider_message_id: None,
    }
}

pub fn failed(message: &Claimed, reason: &str) -> Settled {
    known(message, DeliveryState::Failed, Some(reason))
}

fn again(message: &Claimed, reason: &str, now: Timestamp, delay: Duration) -> Settled {
    let due_at = Some(now.checked_add(delay).unwrap_or(Timestamp::MAX));
    Settled { due_at, ..known(message, DeliveryState::Queued, Some(reason)) }
}

/// What follows from a provider's outcome.
pub fn judge(message: &Claimed, outcome: &Outcome, at: Circumstances) -> Settled {
    match outcome {
        Outcome::Accepted(id) => {
            let sent = known(message, DeliveryState::Sent, None);
            Settled { provider_message_id: Some(clean(id)), ..sent }
        }
        Outcome::Retry { after, why } => {
            let settled = match reschedule::after_failure(message.failures, *after, at.random) {
                Some(delay) => again(message, &format!("retrying: {why}"), at.now, delay),
                None => failed(message, &format!("gave_up: {why}")),
            };
            Settled { failures: 1, ..settled }
        }
        Outcome::Rejected(why) if why == "channel_not_configured" => failed(message, why),
        Outcome::Rejected(why) => Settled { failures: 1, ..failed(message, &format!("rejected: {why}")) },
        Outcome::Gone(why) => Settled { failures: 1, ..failed(message, &format!("gone: {why}")) },
        Outcome::Misconfigured(why) => {
            // Changed meanwhile: then this says nothing about the settings of now.
            let delay = if at.settings_changed { Duration::ZERO } else { reschedule::while_held(at.random) };
            again(message, &format!("{HELD}: {why}"), at.now, delay)
        }
        Outcome::Ambiguous(why) => {
            let reason = format!("outcome_unknown: {why}");
            let settled = match reschedule::after_unknown(message.ambiguous + 1, unknown_retries(message.lane, at)) {
                Some(delay) => again(message, &reason, at.now, delay),
                None => failed(message, &reason),
            };
            Settled { ambiguous: 1, ..settled }
        }
    }
}

/// Whether earlier calls whose outcome was never learned leave room for another one. What nobody waits for is not
/// worth a second copy.
pub fn may_be_sent(message: &Claimed, at: Circumstances) -> bool {
    message.ambiguous <= unknown_retries(message.lane, at)
}

fn unknown_retries(lane: Lane, at: Circumstances) -> i32 {
    match lane {
        Lane::Direct | Lane::Automation => at.unknown_retries,
        Lane::Campaign => 0,
    }
}

/// What becomes of a message for somebody who is not there: a direct one may have overtaken its user.
pub fn user_unknown(message: &Claimed, at: Circumstances) -> Settled {
    const REASON: &str = "user_not_found";
    let age_ms = at.now.as_millisecond() - message.created_at.as_millisecond();
    let age = Duration::from_millis(age_ms.max(0).unsigned_abs());
    let delay = match message.lane {
        Lane::Direct => reschedule::while_user_unknown(age, message.attempt, at.random),
        Lane::Automation | Lane::Campaign => None,
    };
    delay.map_or_else(|| failed(message, REASON), |delay| again(message, REASON, at.now, delay))
}

/// A direct message whose person has no address: one may be on its way, accepted just before the message was.
pub fn address_missing(message: &Claimed, at: Circumstances) -> Settled {
    const REASON: &str = "no_address";
    let age_ms = at.now.as_millisecond() - message.created_at.as_millisecond();
    if message.lane == Lane::Direct && age_ms < APPLIED_MS {
        return again(message, REASON, at.now, Duration::from_secs(1));
    }
    known(message, DeliveryState::Suppressed, Some(REASON))
}

/// By then what was accepted before a message has been applied, as long as nothing is wrong.
const APPLIED_MS: i64 = 4_000;

/// A provider's words, fit for a row: Postgres takes no NUL, and nobody reads a page.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(REASON_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::clock::from_ms;
    use shared::ids::ProjectId;
    use shared::send::Channel;
    use uuid::Uuid;

    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn message(lane: Lane, failures: i32, ambiguous: i32) -> Claimed {
        Claimed {
            project: ProjectId(Uuid::from_u128(1)),
            id: Uuid::from_u128(2),
            user_id: Uuid::from_u128(3),
            channel: Channel::Email,
            lane,
            template_id: None,
            content: json!({}),
            data: json!({}),
            attempt: 4,
            failures,
            ambiguous,
            lapsed: false,
            created_at: from_ms(NOW),
        }
    }

    fn at(now_ms: i64) -> Circumstances {
        Circumstances { now: from_ms(now_ms), random: 1.0, unknown_retries: 1, settings_changed: false }
    }

    fn due_in(settled: &Settled) -> Option<i64> {
        settled.due_at.map(|d| (d.as_millisecond() - NOW) / 1_000)
    }

    #[test]
    fn every_outcome_has_its_end() {
        let why = || "why".to_owned();
        let retry = || Outcome::Retry { after: None, why: why() };
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
    fn settings_mended_during_the_call_are_tried_at_once() {
        let changed = Circumstances { settings_changed: true, ..at(NOW) };
        let settled = judge(&message(Lane::Direct, 0, 0), &Outcome::Misconfigured(String::new()), changed);
        assert_eq!(due_in(&settled), Some(0));
    }

    #[test]
    fn a_lease_that_ran_out_counts_as_a_call() {
        assert!(may_be_sent(&message(Lane::Direct, 0, 1), at(NOW)));
        assert!(!may_be_sent(&message(Lane::Direct, 0, 2), at(NOW)));
        assert!(may_be_sent(&message(Lane::Campaign, 0, 0), at(NOW)));
        assert!(!may_be_sent(&message(Lane::Campaign, 0, 1), at(NOW)));
    }

    #[test]
    fn only_a_direct_message_waits_for_its_user() {
        assert_eq!(user_unknown(&message(Lane::Direct, 0, 0), at(NOW)).status, DeliveryState::Queued);
        let late = user_unknown(&message(Lane::Direct, 0, 0), at(NOW + 46_000));
        assert_eq!((late.status, late.reason.as_deref()), (DeliveryState::Failed, Some("user_not_found")));
        assert_eq!(user_unknown(&message(Lane::Automation, 0, 0), at(NOW)).status, DeliveryState::Failed);
    }

    #[test]
    fn an_address_may_be_on_its_way() {
        let status = |lane, after| address_missing(&message(lane, 0, 0), at(NOW + after)).status;
        assert_eq!(status(Lane::Direct, 0), DeliveryState::Queued);
        assert_eq!(status(Lane::Direct, 5_000), DeliveryState::Suppressed);
        assert_eq!(status(Lane::Automation, 0), DeliveryState::Suppressed);
    }

    #[test]
    fn words_are_made_fit_for_a_row() {
        let settled = failed(&message(Lane::Direct, 0, 0), &format!("a\0b\r\n{}", "x".repeat(1_000)));
        let reason = settled.reason.unwrap();
        assert!(reason.starts_with("a b  x") && reason.chars().count() == REASON_CHARS);
    }
}
