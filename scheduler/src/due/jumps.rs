//! The scheduler's time after a jump of the database's clock ([`database::jumps`]).
//!
//! What the scheduler publishes, removes and releases ignores the jump.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kernel::clock::from_ms;
use kernel::metric_name::Metric;

use crate::App;
use crate::tick::{PollResult, TickError};

impl App {
    /// Returns the time that decides what is due: the clock, without a jump ahead that no operator has accepted.
    pub fn now(&self) -> Timestamp {
        from_ms(self.now_ms())
    }

    /// Like [`Self::now`], in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        self.jumps.read(&self.clock).due_ms()
    }

    /// Returns how far the clock has jumped ahead, if it has.
    pub fn jumped(&self) -> Option<SignedDuration> {
        self.jumps.ahead(&self.clock)
    }
}

/// Reads the database's time, and agrees with the other schedulers on a jump.
pub async fn tick(app: Arc<App>) -> Result<PollResult, TickError> {
    let ahead_ms = app.jumps.check_and_record(&app.store, &app.clock).await?;
    metrics::gauge!(Metric::ClockAhead).set(ahead_ms as f64 / 1_000.0);
    Ok(PollResult::Idle)
}
