//! Computes the next check of a campaign with messages in flight. This module does no I/O.

use jiff::{SignedDuration, Timestamp};

/// Delay of the next check while workers send messages of the campaign, or its throttle holds some back.
const BUSY_DELAY: SignedDuration = SignedDuration::from_millis(250);
/// Delay of the next check while all released messages wait for a retry.
const DEFERRED_DELAY: SignedDuration = SignedDuration::from_secs(2);

/// Returns the next check of a campaign that is busy.
pub fn soon(now: Timestamp) -> Timestamp {
    after(now, BUSY_DELAY)
}

/// Returns the next check of a campaign whose released messages all wait for a retry.
pub fn deferred(now: Timestamp) -> Timestamp {
    after(now, DEFERRED_DELAY)
}

fn after(now: Timestamp, delay: SignedDuration) -> Timestamp {
    now.checked_add(delay).unwrap_or(now)
}
