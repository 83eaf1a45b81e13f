//! When a message is tried again. Pure.

use std::time::Duration;

use jiff::Timestamp;
use shared::backoff::Backoff;
use shared::clock::from_ms;
use shared::send::Lane;

/// Retries of a batch whose delays differ by less than this part of them share a chunk.
const ROUNDING: i64 = 16;

/// A retry's time, rounded up, so that those of one batch share few chunks.
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

/// Provider failures after which a message is given up.
pub const FAILURES: i32 = 8;

/// 15 s, 1 min, 4 min, 16 min, 64 min and twice 3 h, each shortened by up to a half: about 6 hours in all.
const RETRY: Backoff = Backoff { first: Duration::from_secs(15), factor: 4, most: Duration::from_hours(3) };
/// No hint of a provider is followed for longer.
const HINT_MOST: Duration = Duration::from_hours(6);
/// Until a wrong configuration is tried again, unless it is changed before.
const HELD: Duration = Duration::from_mins(1);
/// Until a call whose outcome was never learned is repeated: a provider that took it may still be working on it.
const UNKNOWN: Duration = Duration::from_mins(1);
/// A user who is not there this long after the acceptance of a direct message is not on the way either.
const USER_WAIT: Duration = Duration::from_secs(45);
const USER_RETRY: Backoff = Backoff { first: Duration::from_secs(1), factor: 2, most: Duration::from_secs(8) };

/// The delay after one more provider failure than `failures`; `None` when that was the last one. `hint` is the
/// provider's own wish, `random` between 0 and 1.
pub fn after_failure(failures: i32, hint: Option<Duration>, random: f64) -> Option<Duration> {
    let failures = failures.max(0) + 1;
    if failures >= FAILURES {
        return None;
    }
    let own = RETRY.delay(failures.unsigned_abs(), random);
    Some(hint.map_or(own, |hint| own.max(hint.min(HINT_MOST))))
}

/// The delay while the channel's settings are wrong, spread out, so that what waits does not come back all at once.
pub fn while_held(random: f64) -> Duration {
    HELD + Duration::from_secs(10).mul_f64(random.clamp(0.0, 1.0))
}

/// The delay while a provider is not called; spread out likewise.
pub fn while_open(after: Duration, random: f64) -> Duration {
    after + Duration::from_secs(10).mul_f64(random.clamp(0.0, 1.0))
}

/// The delay while a provider's account takes no more; spread out likewise.
pub fn while_limited(after: Duration, lane: Lane, random: f64) -> Duration {
    let spread = match lane {
        Lane::Direct => Duration::from_secs(1),
        Lane::Automation | Lane::Campaign => Duration::from_secs(10),
    };
    after + spread.mul_f64(random.clamp(0.0, 1.0))
}

/// The delay until nobody is woken any more.
pub fn while_quiet(left: Duration, random: f64) -> Duration {
    left + Duration::from_mins(1).mul_f64(random.clamp(0.0, 1.0))
}

/// The delay after a call whose outcome was never learned, if there may be another: `ambiguous` counts those calls,
/// this one included.
pub fn after_unknown(ambiguous: i32, retries: i32) -> Option<Duration> {
    (ambiguous <= retries).then_some(UNKNOWN)
}

/// The delay until a direct message looks for its user again; `None` when it has looked for long enough.
pub fn while_user_unknown(age: Duration, attempt: i32, random: f64) -> Option<Duration> {
    let left = USER_WAIT.checked_sub(age).filter(|left| !left.is_zero())?;
    Some(USER_RETRY.delay(attempt.max(1).unsigned_abs(), random).min(left))
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    fn whole(random: f64) -> Duration {
        (0..FAILURES).map_while(|n| after_failure(n, None, random)).sum()
    }

    #[test]
    fn eight_attempts_over_about_six_hours() {
        let delays: Vec<u64> = (0..).map_while(|n| after_failure(n, None, 1.0)).map(|d| d.as_secs()).take(20).collect();
        assert_eq!(delays, [15, 60, 240, 960, 3_840, 10_800, 10_800]);
        let hours = |random| whole(random).as_secs_f64() / 3_600.0;
        assert!((5.0..6.5).contains(&hours(0.5)), "{}", hours(0.5));
        assert!((3.5..8.0).contains(&hours(0.0)) && (3.5..8.0).contains(&hours(1.0)));
    }

    #[test]
    fn a_providers_wish_can_only_lengthen_and_only_so_far() {
        let secs = |hint| after_failure(0, Some(Duration::from_secs(hint)), 1.0).unwrap().as_secs();
        assert_eq!((secs(1), secs(100), secs(1_000_000)), (15, 100, 6 * 3_600));
        assert_eq!(after_failure(7, Some(Duration::from_secs(1)), 0.0), None);
    }

    #[test]
    fn retries_are_rounded_up_by_a_part_of_their_delay() {
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
    fn an_unknown_outcome_is_repeated_as_often_as_allowed() {
        assert_eq!(after_unknown(1, 1), Some(UNKNOWN));
        assert_eq!(after_unknown(2, 1), None);
        assert_eq!(after_unknown(1, 0), None);
    }

    #[test]
    fn an_unknown_user_is_looked_for_until_well_before_a_minute_is_over() {
        let mut age = Duration::ZERO;
        let mut looks = 0;
        while let Some(delay) = while_user_unknown(age, looks, 1.0) {
            age += delay;
            looks += 1;
            assert!(looks < 20);
        }
        assert!((Duration::from_secs(40)..Duration::from_secs(50)).contains(&age), "{age:?}");
        assert!(looks >= 6, "{looks}");
    }
}
