//! A campaign whose messages fail one after the other pauses itself: its template is broken, its provider refuses it, or its
//! list is a bad one, and going on would make it worse. Pure.

use shared::send::reason_code;
use shared::store::campaigns::outcomes::Outcomes;

/// How much may fail.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// So many failures without a success between them are too many.
    pub in_row: i64,
    /// Over half of so many are too many.
    pub of: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    Fine,
    /// So far; from here on the share is counted anew.
    FineSoFar,
    /// The campaign is paused, for this reason.
    TooMany(String),
}

pub fn judge(outcomes: &Outcomes, limits: Limits) -> Judgement {
    let Outcomes { sent, failed, failed_in_row, reason } = outcomes;
    let tried = sent + failed;
    let words = |what: String| {
        // Without a provider's text, which may name the recipient.
        let code = reason.as_deref().map_or("unknown", reason_code);
        Judgement::TooMany(format!("{what}, one of the last with `{code}`; its messages have the details"))
    };
    if *failed_in_row >= limits.in_row {
        return words(format!("{failed_in_row} messages in a row failed"));
    }
    match tried {
        tried if tried < limits.of => Judgement::Fine,
        tried if failed * 2 > tried => words(format!("{failed} of {tried} messages failed")),
        _ => Judgement::FineSoFar,
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_failures_or_half_of_many_is_too_many() {
        let limits = Limits { in_row: 100, of: 1_000 };
        let judged = |sent, failed, failed_in_row| {
            let reason = Some("rejected: 550 no".to_owned());
            judge(&Outcomes { sent, failed, failed_in_row, reason }, limits)
        };
        assert_eq!(judged(0, 0, 0), Judgement::Fine);
        assert_eq!(judged(0, 99, 99), Judgement::Fine);
        let words = "100 messages in a row failed, one of the last with `rejected`; its messages have the details";
        assert_eq!(judged(50_000, 100, 100), Judgement::TooMany(words.to_owned()));
        assert_eq!(judged(400, 599, 9), Judgement::Fine);
        assert_eq!(judged(500, 500, 9), Judgement::FineSoFar);
        assert!(
            matches!(judged(499, 501, 9), Judgement::TooMany(why) if why.starts_with("501 of 1000 messages failed"))
        );
    }
}
