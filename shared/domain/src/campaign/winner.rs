//! Which variant does best. Pure.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Metric, Variant};

/// How a variant did in the test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    pub variant: String,
    /// Messages that its provider took.
    pub sent: i64,
    /// Those of them that came to what is measured.
    pub results: i64,
}

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    Results,
    /// Several did equally well; the first of them goes on.
    Tie,
    /// None had any; the first goes on.
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

/// What came of a test, for good.
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
    /// Of variants, of which there is at least one. Those without a score had no part in the test.
    pub fn on(variants: &[Variant], metric: Metric, scores: &[Score], now: Timestamp) -> Option<Self> {
        let score = |variant: &Variant| {
            let found = scores.iter().find(|score| score.variant == variant.name).cloned();
            found.unwrap_or_else(|| Score { variant: variant.name.clone(), sent: 0, results: 0 })
        };
        let scores: Vec<Score> = variants.iter().map(score).collect();
        let best = scores.iter().map(sure_of).fold(0.0, f64::max);
        let mut leaders = scores.iter().filter(|score| sure_of(score) >= best);
        let first = leaders.next()?.variant.clone();
        let decided_by = match leaders.next() {
            _ if best <= 0.0 => DecidedBy::NoResults,
            Some(_) => DecidedBy::Tie,
            None => DecidedBy::Results,
        };
        Some(Self { variant: first, metric, decided_by, decided_at: now, scores })
    }
}

/// The rate that a variant has at least, with 95 % certainty (the lower end of Wilson's interval). So one reader of one
/// message does not win over forty of a hundred, and of equal parts of the test the higher rate wins.
fn sure_of(score: &Score) -> f64 {
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
        let verdict = Verdict::on(&variants, Metric::Opened, &scores, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(verdict.scores.len(), 3);
        (verdict.variant, verdict.decided_by)
    }

    #[test]
    fn the_surest_best_wins() {
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
        assert_eq!(Verdict::on(&[], Metric::Opened, &[], Timestamp::UNIX_EPOCH), None);
    }
}
