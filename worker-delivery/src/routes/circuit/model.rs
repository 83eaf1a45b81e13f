//! A provider with random outcomes and concurrent calls: when calls are made, checked against a log of its outcomes.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

fn outcome() -> impl Strategy<Value = Outcome> {
    let why = || "why".to_owned();
    prop_oneof![
        1 => Just(Outcome::Accepted(String::new())),
        1 => Just(Outcome::Rejected(why())),
        1 => Just(Outcome::Gone(why())),
        4 => Just(Outcome::unavailable("why")),
        4 => Just(Outcome::Ambiguous(why())),
        2 => Just(Outcome::Misconfigured(why())),
        2 => (0..200_u64).prop_map(move |s| Outcome::Throttled { after: Some(Duration::from_secs(s)), why: why() }),
        1 => Just(Outcome::Throttled { after: None, why: String::new() }),
        1 => Just(Outcome::Limited { after: Duration::from_secs(1), why: String::new() }),
    ]
}

/// Whether the provider responded normally.
fn is_response(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Accepted(_) | Outcome::Rejected(_) | Outcome::Gone(_) => true,
        Outcome::Throttled { after, .. } => after.is_none_or(|after| after.is_zero()),
        _ => false,
    }
}

/// Returns the outcomes since the last normal response.
fn since_response(log: &[(Instant, Outcome)]) -> &[(Instant, Outcome)] {
    let from = log.iter().rposition(|(_, outcome)| is_response(outcome)).map_or(0, |at| at + 1);
    &log[from..]
}

fn is_failure(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unavailable { .. } | Outcome::Ambiguous(_))
}

/// Returns until when one outcome alone keeps the circuit open.
fn opens_until(at: Instant, outcome: &Outcome) -> Option<Instant> {
    match outcome {
        Outcome::Misconfigured(_) => Some(at + Duration::from_secs(30)),
        Outcome::Throttled { after: Some(after), .. } => Some(at + (*after).min(Duration::from_mins(1))),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn calls_are_made_only_as_earlier_outcomes_allow(
        // Delay after the previous message, outcome of the call, and the number of messages until it is known.
        messages in prop::collection::vec((0..15_000_u64, outcome(), 0..3_usize), 1..60),
    ) {
        let (mut circuit, mut now) = (Circuit::default(), Instant::now());
        let mut log: Vec<(Instant, Outcome)> = Vec::new();
        let mut in_flight: Vec<(usize, Outcome)> = Vec::new();
        let mut made: Vec<Instant> = Vec::new();
        for (number, (pause_ms, outcome, after)) in messages.into_iter().enumerate() {
            now += Duration::from_millis(pause_ms);
            let ended: Vec<_> = in_flight.extract_if(.., |(ends, _)| *ends <= number).collect();
            for (_, outcome) in ended {
                circuit.record(&outcome, now);
                log.push((now, outcome));
            }
            let recent = since_response(&log);
            let failures = recent.iter().filter(|(_, outcome)| is_failure(outcome)).count();
            let last_outcome = recent.last().map(|(at, _)| *at);
            let pause = recent.iter().filter_map(|(at, outcome)| match outcome {
                Outcome::Throttled { .. } => opens_until(*at, outcome),
                _ => None,
            });
            let is_open = circuit.is_open(now);
            let refused = circuit.refusal(now);
            prop_assert_eq!(is_open, refused.is_some());
            if let Some(refused) = &refused {
                let opens = |outcome: &Outcome| opens_until(now, outcome).is_some();
                prop_assert!(failures >= 5 || recent.iter().any(|(_, outcome)| opens(outcome)), "{:?} without a reason", refused);
                // A call is allowed again within a minute.
                let latest = last_outcome.into_iter().chain(made.last().copied()).max().unwrap();
                prop_assert!(now < latest + Duration::from_mins(1), "still {:?}", refused);
                if let Outcome::Held { after, .. } = refused {
                    prop_assert!(!after.is_zero() && *after <= Duration::from_mins(1));
                }
                continue;
            }
            prop_assert!(pause.max().is_none_or(|until| now >= until), "called during a requested pause");
            if failures >= 5 {
                let last = recent.iter().rfind(|(_, outcome)| is_failure(outcome)).map(|(at, _)| *at).unwrap();
                prop_assert!(now >= last + Duration::from_secs(10), "called again too soon");
                // One trial call at a time, unless its outcome is overdue.
                let trial = made.iter().rfind(|at| last_outcome.is_some_and(|last| **at >= last));
                prop_assert!(trial.is_none_or(|at| now >= *at + Duration::from_secs(20)), "two trial calls at a time");
            }
            made.push(now);
            in_flight.push((number + 1 + after, outcome));
        }
    }
}
