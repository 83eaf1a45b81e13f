//! Retry policy: when to retry a call, and after what delay. Pure: the caller supplies the outcome and the randomness.

use std::time::Duration;

use kernel::backoff::Backoff;

/// The outcome of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Response {
        status: u16,
        /// The `Retry-After` header, in seconds.
        retry_after: Option<u64>,
    },
    /// No connection, a broken one, or a timeout.
    NoResponse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Done,
    Retry {
        after: Duration,
    },
    /// The call itself is invalid, so a retry would not help.
    Stop,
}

const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(200), factor: 2, max: Duration::from_secs(5) };
/// Maximum `Retry-After` in seconds. Longer values are cut to this.
const MAX_RETRY_AFTER_SECS: u64 = 30;

/// Returns the next step after the `failures`-th consecutive failure, counted from 1. `random` is between 0 and 1.
pub fn next(outcome: Outcome, failures: u32, random: f64) -> Next {
    let again = |least: Duration| Next::Retry { after: least.mul_f64(1.0 + random / 5.0) };
    match outcome {
        Outcome::Response { status: 200..300, .. } => Next::Done,
        Outcome::Response { status: 429 | 500.., retry_after } => {
            let requested = Duration::from_secs(retry_after.unwrap_or(0).min(MAX_RETRY_AFTER_SECS));
            let own = BACKOFF.delay(failures, random);
            if requested > own { again(requested) } else { Next::Retry { after: own } }
        }
        Outcome::Response { .. } => Next::Stop,
        Outcome::NoResponse => Next::Retry { after: BACKOFF.delay(failures, random) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_temporary_failures_are_retried() {
        let of = |status, retry_after| next(Outcome::Response { status, retry_after }, 1, 0.0);
        let again = |ms| Next::Retry { after: Duration::from_millis(ms) };
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
        assert_eq!(next(Outcome::NoResponse, 1, 0.0), again(100));
    }

    #[test]
    fn delays_grow_to_five_seconds_with_jitter() {
        let delay = |failures, random| match next(Outcome::NoResponse, failures, random) {
            Next::Retry { after } => after.as_millis(),
            _ => 0,
        };
        assert_eq!((1..=7).map(|n| delay(n, 1.0)).collect::<Vec<_>>(), [200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(delay(6, 0.0), 2_500);
        let requested = Outcome::Response { status: 503, retry_after: Some(10) };
        assert_eq!(next(requested, 1, 1.0), Next::Retry { after: Duration::from_secs(12) });
    }
}
