//! Restart delays for processes that end by themselves. Pure.

use std::time::Duration;

use kernel::backoff::Backoff;

/// A run of at least this duration resets the delays.
const STABLE_AFTER: Duration = Duration::from_secs(30);
const DELAYS: Backoff = Backoff { initial: Duration::from_millis(200), factor: 2, max: Duration::from_secs(5) };
/// Exit codes that a restart alone does not fix: an invalid configuration, or a schema that the program does not
/// support.
const PERMANENT_EXIT_CODES: [i32; 2] = [kernel::env::EXIT_CONFIG, 78];

/// Consecutive exits of a process, counted since its last long run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestartBackoff(u32);

impl RestartBackoff {
    /// Returns the delay before the next start, after a run of `run_time` that ended with `code` (`None` for a signal).
    pub fn next_delay(&mut self, run_time: Duration, code: Option<i32>) -> Duration {
        self.0 = if run_time >= STABLE_AFTER { 1 } else { self.0.saturating_add(1) };
        if code.is_some_and(|c| PERMANENT_EXIT_CODES.contains(&c)) {
            return DELAYS.max;
        }
        // No jitter, because there is only one of each process.
        DELAYS.delay(self.0, 1.0)
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_secs(1);

    #[test]
    fn the_delays_grow_to_five_seconds() {
        let mut backoff = RestartBackoff::default();
        let delays: Vec<u128> = (0..7).map(|_| backoff.next_delay(SHORT, Some(1)).as_millis()).collect();
        assert_eq!(delays, [200, 400, 800, 1600, 3200, 5000, 5000]);
    }

    #[test]
    fn long_run_resets_the_delays() {
        let mut backoff = RestartBackoff::default();
        for _ in 0..5 {
            backoff.next_delay(SHORT, None);
        }
        assert_eq!(backoff.next_delay(STABLE_AFTER, None).as_millis(), 200);
        assert_eq!(backoff.next_delay(SHORT, None).as_millis(), 400);
    }

    #[test]
    fn permanent_failures_are_retried_slowly() {
        for code in PERMANENT_EXIT_CODES {
            assert_eq!(RestartBackoff::default().next_delay(SHORT, Some(code)).as_secs(), 5);
        }
    }
}
