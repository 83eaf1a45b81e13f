//! A provider that behaves at random, with calls under way beside each other: when calls are made, by the log of all that it said.

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

/// Whether the provider is there and takes calls.
fn is_life(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Accepted(_) | Outcome::Rejected(_) | Outcome::Gone(_) => true,
        Outcome::Throttled { after, .. } => after.is_none_or(|after| after.is_zero()),
        _ => false,
    }
}

/// What was said since the last sign of life, and when.
fn since_life(log: &[(Instant, Outcome)]) -> &[(Instant, Outcome)] {
    let from = log.iter().rposition(|(_, said)| is_life(said)).map_or(0, |at| at + 1);
    &log[from..]
}

fn is_failure(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unavailable { .. } | Outcome::Ambiguous(_))
}

/// Until when a saying alone keeps everybody away.
fn asks_for(at: Instant, said: &Outcome) -> Option<Instant> {
    match said {
        Outcome::Misconfigured(_) => Some(at + Duration::from_secs(30)),
        Outcome::Throttled { after: Some(after), .. } => Some(at + (*after).min(Duration::from_mins(1))),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn calls_are_made_as_what_was_said_allows(
        // How long after the one before a message comes, what its call would come to, and how many messages later that is known.
        messages in prop::collection::vec((0..15_000_u64, outcome(), 0..3_usize), 1..60),
    ) {
        let (mut circuit, mut now) = (Circuit::default(), Instant::now());
        let mut log: Vec<(Instant, Outcome)> = Vec::new();
        let mut under_way: Vec<(usize, Outcome)> = Vec::new();
        let mut made: Vec<Instant> = Vec::new();
        for (number, (pause_ms, outcome, after)) in messages.into_iter().enumerate() {
            now += Duration::from_millis(pause_ms);
            let ended: Vec<_> = under_way.extract_if(.., |(ends, _)| *ends <= number).collect();
            for (_, outcome) in ended {
                circuit.note(&outcome, now);
                log.push((now, outcome));
            }
            let said = since_life(&log);
            let failures = said.iter().filter(|(_, said)| is_failure(said)).count();
            let last_said = said.last().map(|(at, _)| *at);
            let pause = said.iter().filter_map(|(at, said)| match said {
                Outcome::Throttled { .. } => asks_for(*at, said),
                _ => None,
            });
            let is_shown_open = circuit.is_open(now);
            let refused = circuit.refusal(now);
            prop_assert_eq!(is_shown_open, refused.is_some());
            if let Some(refused) = &refused {
                let is_known = |said: &Outcome| asks_for(now, said).is_some();
                prop_assert!(failures >= 5 || said.iter().any(|(_, said)| is_known(said)), "{:?} without a reason", refused);
                // Somebody is let through again before long.
                let lately = last_said.into_iter().chain(made.last().copied()).max().unwrap();
                prop_assert!(now < lately + Duration::from_mins(1), "still {:?}", refused);
                if let Outcome::Held { after, .. } = refused {
                    prop_assert!(!after.is_zero() && *after <= Duration::from_mins(1));
                }
                continue;
            }
            prop_assert!(pause.max().is_none_or(|until| now >= until), "called in a pause that was asked for");
            if failures >= 5 {
                let last = said.iter().rfind(|(_, said)| is_failure(said)).map(|(at, _)| *at).unwrap();
                prop_assert!(now >= last + Duration::from_secs(10), "called again too soon");
                // One call tries, and the next only when nothing has come of it for as long as it may take.
                let tried = made.iter().rfind(|at| last_said.is_some_and(|said| **at >= said));
                prop_assert!(tried.is_none_or(|at| now >= *at + Duration::from_secs(20)), "two calls try at a time");
            }
            made.push(now);
            under_way.push((number + 1 + after, outcome));
        }
    }
}
