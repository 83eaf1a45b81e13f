//! A limit within this process. Pure: the caller passes the time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rate_limits::PRIORITY_SHARE;

use super::{BURST, Lane, priority_capacity};

/// Float tolerance when comparing tokens.
const EPSILON: f64 = 1e-6;

/// A token bucket, initially full, with optional extra tokens for [`Lane::Priority`].
pub struct LocalBucket {
    /// Tokens per second.
    rate: f64,
    /// Maximum tokens, without those for [`Lane::Priority`].
    capacity: f64,
    priority_capacity: f64,
    level: Mutex<Level>,
}

#[derive(Clone, Copy)]
struct Level {
    tokens: f64,
    priority: f64,
    at: Option<Instant>,
}

impl LocalBucket {
    /// Returns the share of one of `replicas` gateways in a limit of `limit` requests per second.
    pub fn share(limit: u32, replicas: u32, has_priority: bool) -> Self {
        let share = (limit / replicas.max(1)).max(1);
        Self::new(share, if has_priority { priority_capacity(share) } else { 0 })
    }

    /// Returns a bucket with a burst of [`BURST`] seconds.
    pub fn new(per_second: u32, priority_capacity: u32) -> Self {
        let rate = f64::from(per_second);
        Self::full(rate, rate * f64::from(BURST), f64::from(priority_capacity))
    }

    /// Returns a bucket with a burst of one minute.
    pub fn per_minute(count: u32) -> Self {
        Self::full(f64::from(count) / 60.0, f64::from(count), 0.0)
    }

    fn full(rate: f64, capacity: f64, priority_capacity: f64) -> Self {
        let level = Level { tokens: capacity, priority: priority_capacity, at: None };
        Self { rate, capacity, priority_capacity, level: Mutex::new(level) }
    }

    /// Starts with the tokens of `before`, capped by this bucket's capacity.
    pub fn carry_over(&self, before: &Self, now: Instant) {
        let mut known = *before.level.lock().unwrap_or_else(PoisonError::into_inner);
        before.fill(&mut known, now);
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = known.tokens.min(self.capacity);
        *level = Level { tokens, priority: known.priority.min(self.priority_capacity), at: known.at };
    }

    /// Takes a token. Returns how many are left, or how long to wait for one.
    pub fn take(&self, lane: Lane, now: Instant) -> Result<u32, Duration> {
        self.take_or_peek(lane, now, true)
    }

    /// Like [`LocalBucket::take`], but does not take the token.
    pub fn peek(&self, lane: Lane, now: Instant) -> Result<u32, Duration> {
        self.take_or_peek(lane, now, false)
    }

    fn take_or_peek(&self, lane: Lane, now: Instant, takes: bool) -> Result<u32, Duration> {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        self.fill(&mut level, now);
        let is_privileged = lane == Lane::Priority;
        let spent = f64::from(u8::from(takes));
        if level.tokens + EPSILON >= 1.0 {
            level.tokens -= spent;
        } else if is_privileged && level.priority + EPSILON >= 1.0 {
            level.priority -= spent;
        } else {
            return Err(self.wait(*level, is_privileged));
        }
        let priority = if is_privileged { level.priority } else { 0.0 };
        Ok((level.tokens + EPSILON).max(0.0) as u32 + (priority + EPSILON).max(0.0) as u32)
    }

    fn fill(&self, level: &mut Level, now: Instant) {
        let at = level.at.map_or(now, |at| at.max(now));
        let passed = level.at.map_or(Duration::ZERO, |before| now.saturating_duration_since(before));
        level.at = Some(at);
        let added = passed.as_secs_f64() * self.rate;
        let to_priority = (self.priority_capacity - level.priority).min(added * PRIORITY_SHARE);
        level.priority += to_priority;
        level.tokens = (level.tokens + added - to_priority).min(self.capacity);
    }

    /// Returns how long to wait for a token. Until the priority tokens are full, the public ones get only the rest of the refill.
    fn wait(&self, level: Level, is_privileged: bool) -> Duration {
        let (short, missing) = (1.0 - level.tokens, self.priority_capacity - level.priority);
        let mut needed = (short / (1.0 - PRIORITY_SHARE)).min(short + missing);
        if is_privileged && self.priority_capacity >= 1.0 {
            needed = needed.min((1.0 - level.priority) / PRIORITY_SHARE);
        }
        Duration::from_secs_f64((needed / self.rate).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(local: &LocalBucket, lane: Lane, now: Instant) -> u32 {
        (0..1_000).take_while(|_| local.take(lane, now).is_ok()).count() as u32
    }

    #[test]
    fn burst_is_twice_the_gateways_share() {
        let (local, now) = (LocalBucket::share(10, 2, false), Instant::now());
        assert_eq!(granted(&local, Lane::Public, now), 10);
        assert_eq!(local.take(Lane::Public, now), Err(Duration::from_millis(200)));
        assert!(LocalBucket::share(1, 5, true).take(Lane::Public, now).is_ok());
    }

    #[test]
    fn changed_limit_keeps_the_remaining_tokens() {
        let (local, start) = (LocalBucket::share(10, 1, true), Instant::now());
        assert_eq!(granted(&local, Lane::Public, start), 20);
        let changed = LocalBucket::share(20, 1, true);
        changed.carry_over(&local, start);
        assert_eq!(granted(&changed, Lane::Public, start), 0);
        assert_eq!(granted(&changed, Lane::Priority, start), 1);
        assert_eq!(granted(&changed, Lane::Public, start + Duration::from_secs(1)), 18);
        let lower = LocalBucket::share(5, 1, false);
        lower.carry_over(&LocalBucket::share(10, 1, false), start);
        assert_eq!(granted(&lower, Lane::Public, start), 10);
    }

    #[test]
    fn per_minute_bucket_refills_gradually() {
        let (local, start) = (LocalBucket::per_minute(3), Instant::now());
        assert_eq!(granted(&local, Lane::Public, start), 3);
        assert_eq!(local.take(Lane::Public, start + Duration::from_secs(5)), Err(Duration::from_secs(15)));
        assert_eq!(granted(&local, Lane::Public, start + Duration::from_secs(20)), 1);
        assert_eq!(granted(&local, Lane::Public, start + Duration::from_mins(10)), 3);
    }

    #[test]
    fn public_callers_cannot_take_priority_tokens() {
        let (local, start) = (LocalBucket::share(100, 1, true), Instant::now());
        assert_eq!(granted(&local, Lane::Public, start), 200);
        assert_eq!(granted(&local, Lane::Priority, start), 10);
        assert!(local.take(Lane::Priority, start).is_err());
        // A fifth of the refill is reserved during a flood of public requests.
        let mut taken = [0, 0];
        for ms in 1..=10_000 {
            let now = start + Duration::from_millis(ms);
            taken[0] += granted(&local, Lane::Public, now);
            taken[1] += granted(&local, Lane::Priority, now);
        }
        assert!(taken[0] >= 790 && taken[1] >= 190 && taken[0] + taken[1] <= 1_000, "{taken:?}");
    }

    #[test]
    fn unused_priority_tokens_do_not_delay_public_callers() {
        let (local, start) = (LocalBucket::share(100, 1, true), Instant::now());
        granted(&local, Lane::Public, start);
        let taken: u32 =
            (1..=1_000).map(|n| granted(&local, Lane::Public, start + Duration::from_millis(10 * n))).sum();
        assert!((999..=1_000).contains(&taken), "{taken}");
    }

    #[test]
    fn peek_takes_no_token_and_a_clock_set_back_adds_none() {
        let (local, earlier) = (LocalBucket::new(1, 0), Instant::now());
        let now = earlier + Duration::from_secs(5);
        assert_eq!((local.peek(Lane::Public, now), local.peek(Lane::Public, now)), (Ok(2), Ok(2)));
        assert_eq!(granted(&local, Lane::Public, now), 2);
        assert!(local.peek(Lane::Public, earlier).is_err());
        assert!(local.peek(Lane::Public, now).is_err());
        assert!(local.peek(Lane::Public, now + Duration::from_secs(1)).is_ok());
    }
}
