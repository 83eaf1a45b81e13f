//! A token bucket of this process alone. Pure: the caller passes the time.

use std::time::Duration;

use rate_limits::{BucketTerms, Lease};
use tokio::time::Instant;

/// Bucket for `rate` calls per second. It reserves 1/20 s of calls (at least 0.5) for urgent ones; above that it holds one call plus
/// 1/20 s.
pub fn terms(rate: f64) -> BucketTerms {
    let twentieth = rate / 20.0;
    let reserve = twentieth.max(0.5);
    BucketTerms { rate, capacity: reserve + 1.0 + twentieth, reserve }
}

/// The same terms for urgent calls, which may take the reserve.
pub fn urgent(terms: BucketTerms) -> BucketTerms {
    BucketTerms { reserve: 0.0, ..terms }
}

/// Float tolerance when comparing tokens.
const EPSILON: f64 = 1e-6;

/// Starts empty, also after `forget`: tokens recently taken from Redis are unknown.
#[derive(Debug, Default)]
pub struct LocalBucket {
    tokens: f64,
    at: Option<Instant>,
    /// No refill before this time.
    paused_until: Option<Instant>,
}

impl LocalBucket {
    pub fn lease(&mut self, terms: BucketTerms, max: u32, now: Instant) -> Lease {
        self.fill(terms, now);
        let pause = self.paused_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        let free = (self.tokens - terms.reserve + EPSILON).max(0.0) as u32;
        let taken = if pause.is_zero() { free.min(max) } else { 0 };
        self.tokens -= f64::from(taken);
        let missing = if taken == 0 { (1.0 + terms.reserve - self.tokens).max(0.0) } else { 0.0 };
        Lease { taken, left: self.tokens.max(0.0) as u32, wait: pause + Duration::from_secs_f64(missing / terms.rate) }
    }

    /// Empties the bucket and pauses it, for all terms.
    pub fn pause(&mut self, time: Duration, now: Instant) {
        self.tokens = 0.0;
        self.at = Some(now);
        self.paused_until = self.paused_until.max(Some(now + time));
    }

    /// Empties the bucket: other workers have taken tokens from Redis.
    pub fn forget(&mut self) {
        (self.tokens, self.at) = (0.0, None);
    }

    fn fill(&mut self, terms: BucketTerms, now: Instant) {
        let at = self.at.replace(now).unwrap_or(now);
        let from = self.paused_until.map_or(at, |until| at.max(until));
        let passed = now.saturating_duration_since(from);
        self.tokens = (self.tokens + passed.as_secs_f64() * terms.rate).min(terms.capacity);
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all available tokens for a time; returns their number.
    fn drain(bucket: &mut LocalBucket, terms: BucketTerms, from: Instant, time: Duration) -> u32 {
        let (mut now, mut taken) = (from, 0);
        while now < from + time {
            let lease = bucket.lease(terms, 1_000, now);
            taken += lease.taken;
            now += lease.wait.max(Duration::from_millis(1));
        }
        taken
    }

    #[test]
    fn tokens_over_time_match_the_rate() {
        for rate in [1.0, 2.0, 7.0, 100.0, 3_000.0] {
            let taken =
                f64::from(drain(&mut LocalBucket::default(), terms(rate), Instant::now(), Duration::from_mins(1)));
            assert!(taken <= 60.0 * rate && taken >= 0.97 * 60.0 * rate, "{rate}: {taken}");
        }
    }

    #[test]
    fn idle_bucket_grants_its_capacity_at_once() {
        for (rate, bulk, whole) in [(1.0, 1, 1), (10.0, 1, 2), (100.0, 6, 11), (1_000.0, 51, 101)] {
            let (now, later) = (Instant::now(), Instant::now() + Duration::from_hours(1));
            let mut bucket = LocalBucket::default();
            bucket.lease(terms(rate), 0, now);
            assert_eq!(bucket.lease(terms(rate), 1_000, later).taken, bulk, "{rate}");
            assert_eq!(bucket.lease(urgent(terms(rate)), 1_000, later).taken, whole - bulk, "{rate}");
        }
    }

    #[test]
    fn urgent_calls_take_precedence() {
        let (start, terms) = (Instant::now(), terms(10.0));
        let (mut bucket, mut now, mut taken) = (LocalBucket::default(), start, [0, 0]);
        while now < start + Duration::from_secs(10) {
            taken[1] += bucket.lease(terms, 1, now).taken;
            taken[0] += bucket.lease(urgent(terms), 1, now).taken;
            now += Duration::from_millis(20);
        }
        assert_eq!(taken, [99, 0]);
    }

    #[test]
    fn lease_returns_the_time_until_the_next_token() {
        let (now, terms) = (Instant::now(), terms(2.0));
        let mut bucket = LocalBucket::default();
        let wait = bucket.lease(terms, 1, now).wait;
        assert_eq!(wait, Duration::from_millis(750));
        assert_eq!(bucket.lease(terms, 1, now + wait), Lease { taken: 1, left: 0, wait: Duration::ZERO });
    }

    #[test]
    fn paused_bucket_grants_nothing() {
        let (now, terms) = (Instant::now(), urgent(terms(100.0)));
        let mut bucket = LocalBucket::default();
        bucket.pause(Duration::from_secs(5), now);
        assert_eq!(bucket.lease(terms, 1, now + Duration::from_secs(5)).taken, 0);
        assert_eq!(bucket.lease(terms, 1, now + Duration::from_millis(5_020)).taken, 1);
    }

    #[test]
    fn forgotten_bucket_is_empty_and_still_paused() {
        let (now, terms) = (Instant::now(), urgent(terms(10.0)));
        let at = |secs| now + Duration::from_secs(secs);
        let mut bucket = LocalBucket::default();
        bucket.pause(Duration::from_mins(1), now);
        bucket.forget();
        assert_eq!(bucket.lease(terms, 1, at(50)).wait, Duration::from_millis(10_100));
        assert_eq!(bucket.lease(terms, 1, at(100)).taken, 1);
        bucket.forget();
        assert_eq!(bucket.lease(terms, 1, at(1_000)).taken, 0);
    }

    #[test]
    fn pause_is_the_same_for_all_rates() {
        let now = Instant::now();
        let (fast, slow) = (urgent(terms(1_000.0)), urgent(terms(1.0)));
        let mut bucket = LocalBucket::default();
        bucket.pause(Duration::from_mins(1), now);
        bucket.pause(Duration::from_secs(1), now);
        let wait = bucket.lease(slow, 1, now + Duration::from_secs(50)).wait;
        assert_eq!(wait, Duration::from_secs(11));
        assert_eq!(bucket.lease(fast, 1, now + Duration::from_millis(59_900)).taken, 0);
        assert_eq!(bucket.lease(slow, 1, now + Duration::from_secs(61)).taken, 1);
    }
}
