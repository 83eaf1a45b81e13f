//! Attempts a message until its final status, with random provider outcomes.

use domain::message::Channel;
use kernel::clock::from_ms;
use kernel::ids::ProjectId;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;
use uuid::Uuid;

use super::*;

fn message(lane: Lane, is_test: bool) -> ClaimedMessage {
    let at = from_ms(1_790_000_000_000);
    ClaimedMessage {
        project: ProjectId(Uuid::from_u128(1)),
        id: Uuid::from_u128(2),
        user_id: Uuid::from_u128(3),
        channel: Channel::Email,
        lane,
        sending: None,
        template_id: None,
        subscription_group_id: None,
        content: if is_test { json!({ "test": true, "to": "a@b.co" }) } else { json!({}) },
        data: json!({}),
        attempt: 0,
        failures: 0,
        ambiguous: 0,
        lapsed: false,
        created_at: at,
        released_at: at,
        trace: None,
    }
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let text = || {
        let some = ["why", "", "payload_too_large: 5000", "\u{85}no\0\r\nyes é"].map(str::to_owned);
        prop::sample::select([&some[..], &["why ".repeat(300)]].concat())
    };
    let after = || (0..30_000_u64).prop_map(Duration::from_secs);
    prop_oneof![
        1 => text().prop_map(Outcome::Accepted),
        1 => text().prop_map(Outcome::Rejected),
        1 => text().prop_map(Outcome::Gone),
        6 => (prop::option::of(after()), text()).prop_map(|(after, why)| Outcome::Throttled { after, why }),
        6 => (prop::option::of(after()), text()).prop_map(|(after, why)| Outcome::Unavailable { after, why }),
        6 => (after(), text()).prop_map(|(after, why)| Outcome::Held { after, why }),
        3 => (after(), text()).prop_map(|(after, why)| Outcome::Limited { after, why }),
        3 => text().prop_map(Outcome::Misconfigured),
        4 => text().prop_map(Outcome::Ambiguous),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn every_message_reaches_a_correct_final_status(
        lane in prop::sample::select(Lane::ALL.to_vec()),
        is_test in prop::bool::weighted(0.1),
        unknown_retries in 0..3_i32,
        is_idempotent in any::<bool>(),
        try_again_now in any::<bool>(),
        calls in prop::collection::vec((outcome(), 0.0..=1.0), 60),
    ) {
        let mut message = message(lane, is_test);
        let mut now = message.created_at;
        let mut outcomes: Vec<Outcome> = Vec::new();
        let mut end = None;
        for (outcome, random) in calls {
            let at = SettleContext { due_by: now.into(), delays_from: now, random, unknown_retries, try_again_now, is_idempotent };
            message.attempt += 1;
            prop_assert!(may_be_sent(&message, at), "after {:?}", outcomes);
            let settled = judge(&message, &outcome, at);
            outcomes.push(outcome);
            prop_assert_eq!((settled.attempt, settled.id), (message.attempt, message.id));
            let is_plain = |text: &String| text.chars().count() <= 500 && !text.chars().any(char::is_control);
            prop_assert!(settled.reason.iter().chain(&settled.provider_message_id).all(is_plain));
            // A message has a due time exactly when it is queued again.
            prop_assert_eq!(settled.due_at.is_some(), settled.status == DeliveryState::Queued);
            let Some(due_at) = settled.due_at else {
                end = Some((settled.status, settled.reason));
                break;
            };
            prop_assert!(due_at >= now && due_at.duration_since(now).as_hours() <= 8 + 1, "{} at {}", due_at, now);
            message.failures += settled.failures;
            message.ambiguous += settled.ambiguous;
            now = due_at;
        }
        let count = |is: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is(outcome)).count();
        let refused = count(|o| matches!(o, Outcome::Throttled { .. } | Outcome::Unavailable { .. }));
        let unknown = count(|o| matches!(o, Outcome::Ambiguous(_)));
        // Calls that may have delivered a copy.
        let copies = if is_idempotent { 0 } else { unknown };
        let max_copies = if lane == Lane::Campaign { 1 } else { unknown_retries as usize + 1 };
        prop_assert!(copies <= max_copies && refused <= 8, "{} copies, refused {} times", copies, refused);
        prop_assert!(!is_test || outcomes.len() == 1, "a test send was repeated");
        let Some((status, reason)) = end else { return Ok(()) };
        let reason = reason.unwrap_or_default();
        match outcomes.last().unwrap() {
            Outcome::Accepted(_) => prop_assert_eq!((status, reason.as_str()), (DeliveryState::Sent, "")),
            _ if is_test => prop_assert_eq!(status, DeliveryState::Failed),
            Outcome::Rejected(_) | Outcome::Gone(_) => prop_assert_eq!(status, DeliveryState::Failed),
            Outcome::Ambiguous(_) if !is_idempotent => {
                prop_assert!(status == DeliveryState::Failed && reason.starts_with("outcome_unknown") && copies == max_copies);
            }
            last => {
                // Eight failures, including deferrals after six hours.
                prop_assert!(status == DeliveryState::Failed && reason.starts_with("gave_up"), "{:?} for {:?}", reason, last);
                let held = count(|o| matches!(o, Outcome::Held { .. }));
                prop_assert!(refused + held + unknown - copies >= 8, "given up after {:?}", outcomes);
                let waited = now.duration_since(message.created_at).as_hours();
                prop_assert!(!matches!(last, Outcome::Held { .. }) || waited >= 6, "after {} hours", waited);
                let is_no_failure = matches!(last, Outcome::Limited { .. } | Outcome::Misconfigured(_));
                prop_assert!(!is_no_failure, "{:?} counted as a failure", last);
            }
        }
    }
}
