//! Chooses the outcome of a push from the outcomes of its devices. Pure.

use store_profiles::push_tokens::PushToken;

use providers::Outcome;

/// Outcome of the call for one device.
pub struct DeviceResult<'a> {
    pub token: &'a PushToken,
    pub provider: Option<&'static str>,
    pub outcome: Outcome,
}

/// Returns the result that decides for the message: an acceptance first, then an ambiguous call, because a device may have received
/// the push; then outcomes worth a retry; refusals last.
pub fn decisive<'a, 'b>(results: &'a [DeviceResult<'b>]) -> Option<&'a DeviceResult<'b>> {
    results.iter().min_by_key(|result| rank(&result.outcome))
}

fn rank(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Accepted(_) => 0,
        Outcome::Ambiguous(_) => 1,
        Outcome::Throttled { .. } => 2,
        Outcome::Unavailable { .. } => 3,
        Outcome::Held { .. } | Outcome::Limited { .. } => 4,
        Outcome::Misconfigured(_) => 5,
        Outcome::Rejected(_) => 6,
        Outcome::Gone(_) => 7,
    }
}

#[cfg(test)]
mod tests {
    use domain::push_token::Platform;
    use kernel::clock::from_ms;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn acceptance_wins_then_ambiguity_then_retries() {
        let token = PushToken {
            id: Uuid::nil(),
            user_id: Uuid::nil(),
            platform: Platform::Ios,
            token: String::new(),
            created_at: from_ms(0),
            updated_at: from_ms(0),
        };
        let text = String::new;
        let (accepted, gone) = (Outcome::Accepted(text()), Outcome::Gone(text()));
        let (ambiguous, unavailable) = (Outcome::Ambiguous(text()), Outcome::unavailable(""));
        for (outcomes, expected) in [
            (vec![&gone, &accepted, &unavailable], Some("accepted")),
            (vec![&unavailable, &ambiguous, &gone], Some("ambiguous")),
            (vec![&gone, &unavailable], Some("unavailable")),
            (vec![&gone], Some("gone")),
            (vec![], None),
        ] {
            let results: Vec<DeviceResult<'_>> = outcomes
                .into_iter()
                .map(|outcome| DeviceResult { token: &token, provider: None, outcome: outcome.clone() })
                .collect();
            assert_eq!(decisive(&results).map(|r| r.outcome.name()), expected);
        }
    }
}
