//! Client clocks. Two are wrong, and reveal it in their batches' `sentAt`.

use uuid::Uuid;

use super::seeded_rng::SeededRng;

const HOUR_MS: i64 = 3_600_000;

/// Users with a wrong clock and its offset: one is three hours fast, one two days slow.
pub const WRONG_CLOCKS: [(usize, i64); 2] = [(3, 3 * HOUR_MS), (7, -48 * HOUR_MS)];

/// Returns how far a user's devices are ahead of the true time, in milliseconds.
pub fn skew_ms(user: usize) -> i64 {
    WRONG_CLOCKS.iter().find(|(wrong, _)| *wrong == user).map_or(0, |(_, skew)| *skew)
}

/// Returns the ID that a device gives an event: a UUIDv7 by the device's own clock.
///
/// Even the two wrong clocks stay within the range in which the service accepts an event's own ID.
pub fn event_id(true_ms: i64, skew_ms: i64, ids: &mut SeededRng) -> Uuid {
    kernel::ids::timed(true_ms + skew_ms, ids.bytes())
}

/// Formats a time as the device does: RFC 3339, by its own clock.
pub fn device_time(true_ms: i64, skew_ms: i64) -> String {
    kernel::clock::rfc3339(kernel::clock::from_ms(true_ms + skew_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::ids::{CLIENT_ID_FUTURE_MS, CLIENT_ID_PAST_MS, time_ms};

    #[test]
    fn wrong_clocks_stay_within_the_accepted_id_window() {
        let start = 1_790_000_000_000;
        for (user, skew) in WRONG_CLOCKS {
            assert_eq!(skew_ms(user), skew);
            let id = event_id(start - 24 * HOUR_MS, skew, &mut SeededRng::for_run(1, "r", user));
            let ahead = time_ms(id) - start;
            assert!((-CLIENT_ID_PAST_MS..CLIENT_ID_FUTURE_MS).contains(&ahead));
        }
        assert_eq!(skew_ms(0), 0);
    }

    #[test]
    fn device_time_follows_the_devices_clock() {
        assert_eq!(device_time(1_700_000_000_000, 3 * HOUR_MS), "2023-11-15T01:13:20.000Z");
    }
}
