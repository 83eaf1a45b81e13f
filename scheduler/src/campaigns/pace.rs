//! Computes the pace at which a campaign's messages are released. This module does no I/O.

use jiff::{SignedDuration, Timestamp};

/// A campaign's pace, and how much of its allowance is left.
pub struct Pace {
    from: Timestamp,
    each_us: f64,
    /// Messages that may be released now.
    pub allowed: i64,
}

impl Pace {
    /// Allows up to `capacity` messages. `paced_to` is the time up to which the allowance is used.
    ///
    /// Unused allowance carries over for one second, or for one message if that takes longer.
    pub fn new(per_minute: Option<i64>, paced_to: Timestamp, now: Timestamp, capacity: i64) -> Self {
        let Some(per_minute) = per_minute.filter(|n| *n > 0) else {
            return Self { from: now, each_us: 0.0, allowed: capacity };
        };
        let each_us = 60_000_000.0 / per_minute as f64;
        let carried_over = SignedDuration::from_micros(each_us.max(1_000_000.0) as i64);
        let from = paced_to.max(now.checked_sub(carried_over).unwrap_or(now));
        let passed_us = now.duration_since(from).as_micros().max(0) as f64;
        Self { from, each_us, allowed: ((passed_us / each_us) as i64).min(capacity) }
    }

    /// Returns up to when the allowance is used after releasing `released` messages.
    pub fn after(&self, released: i64) -> Timestamp {
        let used = SignedDuration::from_micros((released as f64 * self.each_us) as i64);
        self.from.checked_add(used).unwrap_or(self.from)
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use kernel::clock::from_ms;

    use super::*;

    #[test]
    fn unused_allowance_carries_over_for_one_second_or_one_message() {
        let (now, ms) = (from_ms(1_790_000_000_000), SignedDuration::from_millis);
        let none = Pace::new(None, now, now, 70);
        assert_eq!((none.allowed, none.after(70)), (70, now));
        // 600 per minute are 10 per second.
        let pace = |since_ms, capacity| Pace::new(Some(600), now - ms(since_ms), now, capacity);
        assert_eq!([0, 99, 100, 250, 1_000, 60_000].map(|since| pace(since, 99).allowed), [0, 0, 1, 2, 10, 10]);
        assert_eq!(pace(1_000, 4).allowed, 4);
        assert_eq!(pace(250, 99).after(2), now - ms(50));
        assert_eq!(pace(60_000, 99).after(0), now - ms(1_000));
        // One per minute is allowed after a minute.
        let slow = |since_s: i64| Pace::new(Some(1), now - SignedDuration::from_secs(since_s), now, 9).allowed;
        assert_eq!([59, 60, 600].map(slow), [0, 1, 1]);
    }
}
