//! Retry policy: when to retry a call, and after what delay. Pure: the caller supplies the outcome and the randomness.

use std::time::Duration;

use kernel::backoff::Backoff;

/// The outcome of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Answered {
        status: u16,
        /// The `Retry-After` header, in seconds.
        retry_after: Option<u64>,
    },
    /// No connection, a broken one, or a timeout.
    NoAnswer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Done,
    Again {
        after: Duration,
    },
    /// The call itself is invalid, so a retry would not help.
    Stop,
}

const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), factor: 2, most: Duration::from_secs(5) };
/// Maximum `Retry-After` in seconds. Longer values are cut to this.
const LONGEST_RETRY_AFTER: u64 = 30;

/// Returns the next step after the `failures`-th consecutive failure, counted from 1. `random` is between 0 and 1.
pub fn next(outcome: Outcome, failures: u32, random: f64) -> Next {
    let again = |least: Duration| Next::Again { after: least.mul_f64(1.0 + random / 5.0) };
    match outcome {
        Outcome::Answered { status: 200..300, .. } => Next::Done,
        Outcome::Answered { status: 429 | 500.., retry_after } => {
            let asked = Duration::from_secs(retry_after.unwrap_or(0).min(LONGEST_RETRY_AFTER));
            let own = BACKOFF.delay(failures, random);
            if asked > own { again(asked) } else { Next::Again { after: own } }
        }
        Outcome::Answered { .. } => Next::Stop,
        Outcome::NoAnswer => Next::Again { after: BACKOFF.delay(failures, random) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_outcomes_are_tried_again() {
        let of = |status, retry_after| next(Outcome::Answered { status, retry_after }, 1, 0.0);
        let again = |ms| Next::Again { after: Duration::from_millis(ms) };
        for (status, retry_after, expected) in [
            (200, None, Next::Done),
            (202, Some(9), Next::Done),
            (301, None, Next::Stop),
            (400, None, Next::Stop),
            (401, None, Next::Stop),
            (403, None, Next::Stop),
            (404, None, Next::Stop),
            (408, None, Next::Stop),
            (413, Some(1), Next::Stop),
            (422, None, Next::Stop),
            (429, None, again(100)),
            (429, Some(2), again(2_000)),
            (429, Some(0), again(100)),
            (500, None, again(100)),
            (502, None, again(100)),
            (503, Some(3), again(3_000)),
            (503, Some(86_400), again(30_000)),
            (504, None, again(100)),
        ] {
            assert_eq!(of(status, retry_after), expected, "{status} {retry_after:?}");
        }
        assert_eq!(next(Outcome::NoAnswer, 1, 0.0), again(100));
    }

    #[test]
    fn waits_grow_to_five_seconds_and_are_spread() {
        let delay = |failures, random| match next(Outcome::NoAnswer, failures, random) {
            Next::Again { after } => after.as_millis(),
            _ => 0,
        };
        assert_eq!((1..=7).map(|n| delay(n, 1.0)).collect::<Vec<_>>(), [200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(delay(6, 0.0), 2_500);
        let asked = Outcome::Answered { status: 503, retry_after: Some(10) };
        assert_eq!(next(asked, 1, 1.0), Next::Again { after: Duration::from_secs(12) });
    }
}
