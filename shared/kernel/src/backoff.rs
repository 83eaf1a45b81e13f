//! Exponential backoff with jitter. Pure: the caller provides the randomness.

use std::time::Duration;

/// The delay before a retry, by the number of failures so far.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    pub initial: Duration,
    pub factor: u32,
    pub max: Duration,
}

impl Backoff {
    /// For connections to our own servers.
    pub const CONNECT: Self = Self { initial: Duration::from_millis(50), factor: 2, max: Duration::from_secs(2) };

    /// Returns the delay after `failures` failures (1 for the first): half of the backoff plus `random` (0 to 1)
    /// times the other half.
    pub fn delay(&self, failures: u32, random: f64) -> Duration {
        let whole = self
            .factor
            .checked_pow(failures.saturating_sub(1))
            .and_then(|f| self.initial.checked_mul(f))
            .map_or(self.max, |d| d.min(self.max));
        whole.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_grows_to_maximum() {
        let b = Backoff { initial: Duration::from_secs(10), factor: 4, max: Duration::from_secs(1000) };
        let secs: Vec<u64> = (1..=6).map(|n| b.delay(n, 1.0).as_secs()).collect();
        assert_eq!(secs, [10, 40, 160, 640, 1000, 1000]);
        assert_eq!(b.delay(1, 0.0), Duration::from_secs(5));
        assert_eq!(b.delay(u32::MAX, 1.0), Duration::from_secs(1000));
    }
}
