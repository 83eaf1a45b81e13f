//! Random outcomes of a campaign's messages, evaluated now and then, compared with the list of all attempts.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn campaign_is_paused_exactly_after_a_run_of_failures_or_over_half_of_a_window(
        in_row in 1..12_i64,
        window in 1..40_i64,
        // Likelihood of a failure in each stretch.
        stretches in prop::collection::vec((0..=10_u32, prop::collection::vec(0..10_u32, 1..30)), 1..12),
        reason in prop::option::of(("[a-z_]{1,20}", prop_oneof!["", ": .{0,250}"])),
    ) {
        let limits = Limits { in_row, window };
        let mut outcomes = Outcomes::default();
        // Whether each attempt failed, and the first attempt of the window.
        let (mut tried, mut from): (Vec<bool>, usize) = (Vec::new(), 0);
        for (likely, messages) in stretches {
            for fails in messages.into_iter().map(|chance| chance < likely) {
                tried.push(fails);
                // The same counts as in `outcomes`.
                if fails {
                    outcomes.failed += 1;
                    outcomes.failed_in_row += 1;
                    outcomes.reason = reason.as_ref().map(|(code, details)| format!("{code}{details}"));
                } else {
                    outcomes.sent += 1;
                    outcomes.failed_in_row = 0;
                }
            }
            let run = tried.iter().rev().take_while(|failed| **failed).count() as i64;
            let counted = &tried[from..];
            let failed = counted.iter().filter(|failed| **failed).count();
            let are_many = counted.len() as i64 >= window;
            let is_too_much = run >= in_row || are_many && failed > counted.len() - failed;
            match judge(&outcomes, limits) {
                Judgement::TooMany(why) => {
                    prop_assert!(is_too_much, "{}", why);
                    let code = reason.as_ref().map_or("unknown", |(code, _)| code);
                    let at_end = format!("`{code}`. See its messages for details.");
                    prop_assert!(why.ends_with(&at_end), "{}", why);
                    // A resumption resets the outcomes.
                    (outcomes, from) = (Outcomes::default(), 0);
                    tried.clear();
                }
                Judgement::Fine => prop_assert!(!is_too_much && !are_many),
                Judgement::NewWindow => {
                    prop_assert!(!is_too_much && are_many);
                    (outcomes.sent, outcomes.failed, from) = (0, 0, tried.len());
                }
            }
        }
    }
}
