//! Replay speed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// Once `true`, the rest of the day is sent as fast as the service accepts it.
pub type UnlimitedFlag = Arc<AtomicBool>;

/// Limits the events per second over all connections.
pub struct Pace {
    per_event: Option<Duration>,
    next: Mutex<Instant>,
    unlimited: UnlimitedFlag,
}

impl Pace {
    pub fn new(events_per_second: Option<u32>, unlimited: UnlimitedFlag) -> Self {
        let per_event = events_per_second.map(|rate| Duration::from_secs(1) / rate.max(1));
        Self { per_event, next: Mutex::new(Instant::now()), unlimited }
    }

    /// Waits until `events` more events may be sent.
    pub async fn take(&self, events: u32) {
        let Some(per_event) = self.per_event else { return };
        if self.unlimited.load(Ordering::Relaxed) {
            return;
        }
        let at = {
            let mut next = self.next.lock().await;
            // Time lost while the service was unavailable is not caught up.
            let at = (*next).max(Instant::now());
            *next = at + per_event * events;
            at
        };
        tokio::time::sleep_until(at).await;
    }
}
