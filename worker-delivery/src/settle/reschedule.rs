//! When a message is retried. Pure.

use std::time::Duration;

use domain::message::Lane;
use jiff::Timestamp;
use kernel::backoff::Backoff;
use kernel::clock::from_ms;

/// Due times are rounded up by at most 1/16 of the delay, so retries share chunks.
const ROUNDING: i64 = 16;

/// Rounds up the due time of a retry.
pub fn rounded(due_at: Timestamp, now: Timestamp) -> Timestamp {
    let (due_ms, now_ms) = (due_at.as_millisecond(), now.as_millisecond());
    if due_ms <= now_ms {
        return now;
    }
    // A power of two, so that neighbouring delays are rounded to the same times.
    let step = ((due_ms - now_ms) / ROUNDING).clamp(1, 60_000);
    let step = 1_i64 << (63 - step.leading_zeros());
    from_ms((due_ms + step - 1).div_euclid(step) * step)
}

/// Number of provider failures at which a message fails for good.
pub const MAX_FAILURES: i32 = 8;

/// 15 s, 1 min, 4 min, 16 min, 64 min and twice 3 h, each shortened by up to half: about 6 hours in total.
const RETRY_DELAY: Backoff = Backoff { initial: Duration::from_secs(15), factor: 4, max: Duration::from_hours(3) };
/// Upper limit on `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(6);
/// Delay while the channel is misconfigured. A change of its settings ends it.
const MISCONFIGURED_DELAY: Duration = Duration::from_mins(1);
/// Delay before repeating a call with an unknown outcome: the provider may still be processing it.
const UNKNOWN_DELAY: Duration = Duration::from_mins(1);
/// How long a direct message waits for its user to appear.
const USER_WAIT: Duration = Duration::from_secs(45);
const USER_RETRY_DELAY: Backoff = Backoff { initial: Duration::from_secs(1), factor: 2, max: Duration::from_secs(8) };

/// Returns the delay after one more provider failure than `failures`; `None` after the last one. `hint` is the provider's
/// `Retry-After`; `random` is between 0 and 1.
pub fn after_failure(failures: i32, hint: Option<Duration>, random: f64) -> Option<Duration> {
    let failures = failures.max(0) + 1;
    if failures >= MAX_FAILURES {
        return None;
    }
    let own = RETRY_DELAY.delay(failures.unsigned_abs(), random);
    Some(hint.map_or(own, |hint| own.max(hint.min(MAX_RETRY_AFTER))))
}

/// Delay while the channel is misconfigured, with jitter, so that deferred messages do not return all at once.
pub fn while_held(random: f64) -> Duration {
    MISCONFIGURED_DELAY + Duration::from_secs(10).mul_f64(random.clamp(0.0, 1.0))
}

/// Delay while a provider's circuit is open, with jitter.
pub fn while_open(after: Duration, random: f64) -> Duration {
    after + Duration::from_secs(10).mul_f64(random.clamp(0.0, 1.0))
}

/// Delay while an account's rate limit is reached, with jitter.
pub fn while_limited(after: Duration, lane: Lane, random: f64) -> Duration {
    let spread = match lane {
        Lane::Direct => Duration::from_secs(1),
        Lane::Automation | Lane::Campaign => Duration::from_secs(10),
    };
    after + spread.mul_f64(random.clamp(0.0, 1.0))
}

/// Delay until quiet hours end, with jitter.
pub fn while_quiet(left: Duration, random: f64) -> Duration {
    left + Duration::from_mins(1).mul_f64(random.clamp(0.0, 1.0))
}

/// Returns the delay after a call with an unknown outcome, or `None` if it must not be repeated. `ambiguous` counts these calls,
/// including this one.
pub fn after_unknown(ambiguous: i32, retries: i32) -> Option<Duration> {
    (ambiguous <= retries).then_some(UNKNOWN_DELAY)
}

/// Returns the delay until a direct message checks for its user again; `None` after [`USER_WAIT`].
pub fn while_user_unknown(age: Duration, attempt: i32, random: f64) -> Option<Duration> {
    let left = USER_WAIT.checked_sub(age).filter(|left| !left.is_zero())?;
    Some(USER_RETRY_DELAY.delay(attempt.max(1).unsigned_abs(), random).min(left))
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    fn total_delay(random: f64) -> Duration {
        (0..MAX_FAILURES).map_while(|n| after_failure(n, None, random)).sum()
    }

    #[test]
    fn eight_attempts_over_about_six_hours() {
        let delays: Vec<u64> = (0..).map_while(|n| after_failure(n, None, 1.0)).map(|d| d.as_secs()).take(20).collect();
        assert_eq!(delays, [15, 60, 240, 960, 3_840, 10_800, 10_800]);
        let hours = |random| total_delay(random).as_secs_f64() / 3_600.0;
        assert!((5.0..6.5).contains(&hours(0.5)), "{}", hours(0.5));
        assert!((3.5..8.0).contains(&hours(0.0)) && (3.5..8.0).contains(&hours(1.0)));
    }

    #[test]
    fn retry_after_only_lengthens_the_delay_up_to_a_limit() {
        let secs = |hint| after_failure(0, Some(Duration::from_secs(hint)), 1.0).unwrap().as_secs();
        assert_eq!((secs(1), secs(100), secs(1_000_000)), (15, 100, 6 * 3_600));
        assert_eq!(after_failure(7, Some(Duration::from_secs(1)), 0.0), None);
    }

    #[test]
    fn due_time_is_rounded_up_by_a_fraction_of_the_delay() {
        let now = 1_790_000_000_123;
        let delay = |ms: i64| rounded(from_ms(now + ms), from_ms(now)).as_millisecond() - now;
        assert_eq!((delay(-5), delay(0)), (0, 0));
        for ms in [1, 20, 999, 1_000, 15_000, 60_000, 3_600_000, 100_000_000] {
            assert!((ms..=ms + (ms / ROUNDING).max(1)).contains(&delay(ms)), "{ms}: {}", delay(ms));
        }
        let chunks: std::collections::BTreeSet<i64> = (7_500..15_000).map(delay).collect();
        assert!(chunks.len() < 32, "{}", chunks.len());
    }

    #[test]
    fn unknown_outcome_is_repeated_as_often_as_allowed() {
        assert_eq!(after_unknown(1, 1), Some(UNKNOWN_DELAY));
        assert_eq!(after_unknown(2, 1), None);
        assert_eq!(after_unknown(1, 0), None);
    }

    #[test]
    fn unknown_user_is_awaited_for_less_than_a_minute() {
        let mut age = Duration::ZERO;
        let mut attempts = 0;
        while let Some(delay) = while_user_unknown(age, attempts, 1.0) {
            age += delay;
            attempts += 1;
            assert!(attempts < 20);
        }
        assert!((Duration::from_secs(40)..Duration::from_secs(50)).contains(&age), "{age:?}");
        assert!(attempts >= 6, "{attempts}");
    }
}
