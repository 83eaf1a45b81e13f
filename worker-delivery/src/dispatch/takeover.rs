//! When this worker takes over begun chunks whose lease has ended.
//!
//! It waits while the workers that hold the leases may still be alive: after an outage they first write their outcomes, and a database
//! clock that was set ahead shows leases as ended that are not.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kernel::clock::{Clock, Reading};
use tokio::time::Instant;

/// Delay after an outage, and after the start, which may be in one.
const GRACE: Duration = Duration::from_secs(5);
/// A larger step of the clock is no correction of a reading.
const MAX_STEP_MS: i64 = 1_000;

#[derive(Debug)]
pub struct Takeovers {
    clock: Clock,
    lease: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    is_down: bool,
    not_before: Instant,
    /// The clock minus the time that has passed, when it was last read.
    offset_ms: i64,
}

fn offset_ms(clock: &Clock) -> i64 {
    let Reading { now_ms, monotonic_ms } = clock.reading();
    now_ms - monotonic_ms
}

impl Takeovers {
    pub fn new(clock: Clock, lease: Duration) -> Self {
        let state = State { is_down: false, not_before: Instant::now() + GRACE, offset_ms: offset_ms(&clock) };
        Self { clock, lease, state: Mutex::new(state) }
    }

    /// Records that the database did not answer.
    pub fn database_failed(&self) {
        self.state().is_down = true;
    }

    pub fn database_answered(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.is_down) {
            state.not_before = state.not_before.max(Instant::now() + GRACE);
        }
    }

    /// Waits until leases written before a step of the database's clock have ended by the time that has passed.
    pub fn clock_stepped_ahead(&self) {
        self.state().wait_for_leases(self.lease);
    }

    /// Whether ended leases may be taken over. Call it after reading the time with which leases are compared, so that a step of the clock
    /// before that reading is seen.
    pub fn are_allowed(&self) -> bool {
        let mut state = self.state();
        let offset_ms = offset_ms(&self.clock);
        if offset_ms - state.offset_ms > MAX_STEP_MS {
            state.wait_for_leases(self.lease);
        }
        state.offset_ms = offset_ms;
        !state.is_down && Instant::now() >= state.not_before
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wait_for_leases(&mut self, lease: Duration) {
        self.not_before = self.not_before.max(Instant::now() + lease);
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use kernel::clock::from_ms;

    use super::*;

    const LEASE: Duration = Duration::from_secs(90);

    /// After the delay at the start.
    async fn started() -> (Takeovers, Clock) {
        let clock = Clock::manual(from_ms(1_000_000));
        let takeovers = Takeovers::new(clock.clone(), LEASE);
        assert!(!takeovers.are_allowed());
        tokio::time::advance(GRACE).await;
        assert!(takeovers.are_allowed());
        (takeovers, clock)
    }

    #[tokio::test(start_paused = true)]
    async fn leases_are_left_alone_during_an_outage_and_shortly_after() {
        let (takeovers, _) = started().await;
        takeovers.database_failed();
        tokio::time::advance(GRACE).await;
        assert!(!takeovers.are_allowed());
        takeovers.database_answered();
        assert!(!takeovers.are_allowed());
        tokio::time::advance(GRACE).await;
        takeovers.database_answered();
        assert!(takeovers.are_allowed());
    }

    #[tokio::test(start_paused = true)]
    async fn leases_written_before_a_step_of_the_clock_end_by_the_time_that_passes() {
        let (takeovers, clock) = started().await;
        for minutes in [2, 60, 600] {
            clock.jump(SignedDuration::from_mins(minutes));
            assert!(!takeovers.are_allowed(), "{minutes} minutes");
            tokio::time::advance(Duration::from_millis(89_999)).await;
            clock.advance(LEASE);
            assert!(!takeovers.are_allowed(), "{minutes} minutes");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(takeovers.are_allowed(), "{minutes} minutes");
        }
        // Time that passes is no step, nor is a correction of a reading.
        clock.advance(Duration::from_hours(1));
        clock.jump(SignedDuration::from_millis(MAX_STEP_MS));
        assert!(takeovers.are_allowed());
        clock.jump(SignedDuration::from_hours(-1));
        assert!(takeovers.are_allowed());
        takeovers.clock_stepped_ahead();
        assert!(!takeovers.are_allowed());
    }
}
