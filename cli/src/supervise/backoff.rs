//! Restart delays for processes that end by themselves. Pure.

use std::time::Duration;

use kernel::backoff::Backoff;

/// A run of at least this duration resets the delays.
const SETTLED: Duration = Duration::from_secs(30);
const DELAYS: Backoff = Backoff { first: Duration::from_millis(200), factor: 2, most: Duration::from_secs(5) };
/// Exit codes that a restart alone does not fix: an invalid configuration, or a schema that the program does not
/// support.
const HOPELESS: [i32; 2] = [kernel::env::EXIT_CONFIG, 78];

/// Consecutive exits of a process, counted since its last long run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deaths(u32);

impl Deaths {
    /// Returns the delay before the next start, after a run of `lived` that ended with `code` (`None` for a signal).
    pub fn next_delay(&mut self, lived: Duration, code: Option<i32>) -> Duration {
        self.0 = if lived >= SETTLED { 1 } else { self.0.saturating_add(1) };
        if code.is_some_and(|c| HOPELESS.contains(&c)) {
            return DELAYS.most;
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
        let mut deaths = Deaths::default();
        let delays: Vec<u128> = (0..7).map(|_| deaths.next_delay(SHORT, Some(1)).as_millis()).collect();
        assert_eq!(delays, [200, 400, 800, 1600, 3200, 5000, 5000]);
    }

    #[test]
    fn a_long_life_starts_them_over() {
        let mut deaths = Deaths::default();
        for _ in 0..5 {
            deaths.next_delay(SHORT, None);
        }
        assert_eq!(deaths.next_delay(SETTLED, None).as_millis(), 200);
        assert_eq!(deaths.next_delay(SHORT, None).as_millis(), 400);
    }

    #[test]
    fn what_a_restart_does_not_mend_is_tried_slowly() {
        for code in HOPELESS {
            assert_eq!(Deaths::default().next_delay(SHORT, Some(code)).as_secs(), 5);
        }
    }
}
