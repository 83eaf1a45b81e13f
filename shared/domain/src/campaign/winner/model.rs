//! Checks the winner of a test against the definition of Wilson's interval and basic properties.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use uuid::Uuid;

use super::*;

fn score(variant: usize, sent: i64, results: i64) -> Score {
    Score { variant: variant.to_string(), sent, results }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// The observed rate is exactly 1.96 standard deviations above the lower bound.
    #[test]
    fn lower_bound_matches_wilson_interval(sent in 1..2_000_000_i64, part in 0.0..=1.0) {
        let results = ((sent as f64 * part) as i64).clamp(1, sent);
        let (bound, found) = (lower_bound(&score(0, sent, results)), results as f64 / sent as f64);
        prop_assert!(bound > 0.0 && bound < found);
        let deviation = (bound * (1.0 - bound) / sent as f64).sqrt();
        prop_assert!(((found - bound) / deviation - 1.96).abs() < 1e-6, "{}", (found - bound) / deviation);
    }

    /// A variant that is worse in every respect does not win, additional results never make a winner lose, and the
    /// order of the scores does not matter.
    #[test]
    fn winner_is_not_worse_in_every_respect(
        counted in prop::collection::vec((0..5_000_i64, 0.0..=1.0), 1..6),
        more in 0..500_i64,
        rotated in 0..6_usize,
    ) {
        let variants: Vec<Variant> = (0..counted.len())
            .map(|n| Variant { name: n.to_string(), template_id: Uuid::nil(), weight: 1.0 })
            .collect();
        let mut scores: Vec<Score> =
            counted.iter().enumerate().map(|(n, (sent, part))| score(n, *sent, (*sent as f64 * part) as i64)).collect();
        let on = |scores: &[Score]| Verdict::decide(&variants, Metric::Opened, scores, Timestamp::UNIX_EPOCH).unwrap();
        let verdict = on(&scores);
        prop_assert_eq!(&verdict.scores, &scores);
        let winner: usize = verdict.variant.parse().unwrap();
        for other in &scores {
            let won = &scores[winner];
            let rate = |score: &Score| score.results as f64 / score.sent.max(1) as f64;
            let is_better = other.results > won.results && rate(other) > rate(won);
            prop_assert!(!is_better, "{:?} won over {:?}", won, other);
        }
        prop_assert_eq!(verdict.decided_by == DecidedBy::NoResults, scores.iter().all(|score| score.results == 0));
        let mut shuffled = scores.clone();
        shuffled.rotate_left(rotated % counted.len());
        prop_assert_eq!(&on(&shuffled), &verdict);
        // Further messages, all with a result.
        scores[winner].sent += more;
        scores[winner].results += more;
        prop_assert_eq!(on(&scores).variant, verdict.variant);
    }
}
