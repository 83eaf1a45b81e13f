//! Clients' clocks. Most are right; two are not, and say so by their batches' `sentAt`.

use uuid::Uuid;

use super::dice::Dice;

const HOUR_MS: i64 = 3_600_000;

/// Who has a wrong clock, and by how much: one three hours fast, one two days slow.
pub const WRONG: [(usize, i64); 2] = [(3, 3 * HOUR_MS), (7, -48 * HOUR_MS)];

/// How far a person's devices are ahead of the true time, in milliseconds.
pub fn skew_ms(person: usize) -> i64 {
    WRONG.iter().find(|(wrong, _)| *wrong == person).map_or(0, |(_, skew)| *skew)
}

/// The id that a device gives an event as it happens: a UUIDv7 by the device's own clock. Even the two wrong ones stay
/// within what the service takes for an event's own id.
pub fn event_id(true_ms: i64, skew_ms: i64, ids: &mut Dice) -> Uuid {
    kernel::ids::timed(true_ms + skew_ms, ids.bytes())
}

/// A time as the device writes it: RFC 3339, by its own clock.
pub fn written(true_ms: i64, skew_ms: i64) -> String {
    kernel::clock::rfc3339(kernel::clock::from_ms(true_ms + skew_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::ids::{CLIENT_ID_FUTURE_MS, CLIENT_ID_PAST_MS, time_ms};

    #[test]
    fn wrong_clocks_stay_within_the_window_of_own_ids() {
        let start = 1_790_000_000_000;
        for (person, skew) in WRONG {
            assert_eq!(skew_ms(person), skew);
            let id = event_id(start - 24 * HOUR_MS, skew, &mut Dice::of_run(1, "r", person));
            let ahead = time_ms(id) - start;
            assert!((-CLIENT_ID_PAST_MS..CLIENT_ID_FUTURE_MS).contains(&ahead));
        }
        assert_eq!(skew_ms(0), 0);
    }

    #[test]
    fn a_device_writes_what_its_clock_shows() {
        assert_eq!(written(1_700_000_000_000, 3 * HOUR_MS), "2023-11-15T01:13:20.000Z");
    }
}
