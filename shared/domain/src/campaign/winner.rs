//! Determines the winning variant of a campaign. Pure.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Metric, Variant};

/// The test result of a variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    pub variant: String,
    /// Number of messages accepted by the provider.
    pub sent: i64,
    /// Number of those messages that reached the measured result.
    pub results: i64,
}

/// What decided the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    Results,
    /// Several variants share the best score; the first of them wins.
    Tie,
    /// No variant has any results; the first one wins.
    NoResults,
}

impl DecidedBy {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Results => "results",
            Self::Tie => "tie",
            Self::NoResults => "no_results",
        }
    }
}

/// The final result of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub variant: String,
    pub metric: Metric,
    pub decided_by: DecidedBy,
    pub decided_at: Timestamp,
    /// In the order of the variants.
    pub scores: Vec<Score>,
}

impl Verdict {
    /// Determines the winner; a variant without a score took no part in the test. Returns `None` if there are no
    /// variants.
    pub fn decide(variants: &[Variant], metric: Metric, scores: &[Score], now: Timestamp) -> Option<Self> {
        let score = |variant: &Variant| {
            let found = scores.iter().find(|score| score.variant == variant.name).cloned();
            found.unwrap_or_else(|| Score { variant: variant.name.clone(), sent: 0, results: 0 })
        };
        let scores: Vec<Score> = variants.iter().map(score).collect();
        let best = scores.iter().map(lower_bound).fold(0.0, f64::max);
        let mut leaders = scores.iter().filter(|score| lower_bound(score) >= best);
        let first = leaders.next()?.variant.clone();
        let decided_by = match leaders.next() {
            _ if best <= 0.0 => DecidedBy::NoResults,
            Some(_) => DecidedBy::Tie,
            None => DecidedBy::Results,
        };
        Some(Self { variant: first, metric, decided_by, decided_at: now, scores })
    }
}

/// Returns the lower bound of the variant's rate at 95 % confidence (Wilson score interval).
///
/// So 1 of 1 does not beat 40 of 100, and with equal test sizes the higher rate wins.
fn lower_bound(score: &Score) -> f64 {
    const Z: f64 = 1.96;
    if score.results <= 0 || score.sent <= 0 {
        return 0.0;
    }
    let n = score.sent as f64;
    let rate = (score.results as f64 / n).min(1.0);
    let middle = rate + Z * Z / (2.0 * n);
    let spread = Z * ((rate * (1.0 - rate) + Z * Z / (4.0 * n)) / n).sqrt();
    ((middle - spread) / (1.0 + Z * Z / n)).max(0.0)
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn judged(scores: &[(&str, i64, i64)]) -> (String, DecidedBy) {
        let variant = |name: &str| Variant { name: name.to_owned(), template_id: Uuid::nil(), weight: 30.0 };
        let variants = ["A", "B", "C"].map(variant);
        let score = |(name, sent, results): &(&str, i64, i64)| Score {
            variant: (*name).to_owned(),
            sent: *sent,
            results: *results,
        };
        let scores: Vec<Score> = scores.iter().map(score).collect();
        let verdict = Verdict::decide(&variants, Metric::Opened, &scores, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(verdict.scores.len(), 3);
        (verdict.variant, verdict.decided_by)
    }

    #[test]
    fn highest_lower_bound_wins() {
        use DecidedBy::{NoResults, Results, Tie};
        for (scores, winner, by) in [
            (&[("A", 100, 20), ("B", 100, 30), ("C", 100, 29)][..], "B", Results),
            (&[("A", 1000, 400), ("B", 1, 1)], "A", Results),
            (&[("A", 100, 3), ("B", 110, 4)], "B", Results),
            (&[("B", 100, 30), ("C", 100, 30), ("A", 100, 10)], "B", Tie),
            (&[("C", 10, 1)], "C", Results),
            (&[("A", 100, 0), ("B", 100, 0)], "A", NoResults),
            (&[], "A", NoResults),
            (&[("gone", 100, 90), ("C", 10, 10)], "C", Results),
        ] {
            assert_eq!(judged(scores), (winner.to_owned(), by), "{scores:?}");
        }
        assert_eq!(Verdict::decide(&[], Metric::Opened, &[], Timestamp::UNIX_EPOCH), None);
    }
}
